// Routed experts on isolated documents: each document is a sequence of the balancing loss. Against trajectories in float64
// (tests/golden/make_isolated_experts.py), and, between layouts that must agree, bit by bit.
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "golden_run.hpp"
#include "paths.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

nlohmann::json isolated_golden(const std::string& name) {
  return nlohmann::json::parse(std::ifstream(test_data() + "/golden/isolated/" + name + "/trajectory.json"));
}

// The rows of another dataset, cut into documents whose last tokens have no labels.
class CutRows final : public Dataset {
 public:
  CutRows(std::shared_ptr<const Dataset> rows, std::vector<std::vector<std::int32_t>> begins)
      : Dataset(rows->sequence_length()), rows_(std::move(rows)), begins_(std::move(begins)) {}
  std::int64_t size() const override { return std::ssize(begins_); }
  std::uint64_t content() const override { return rows_->content(); }
  bool isolates_documents() const override { return true; }
  SampleSize measure(std::int64_t index) const override {
    return {sequence_length(), sequence_length() - std::ssize(begins_of(index))};
  }
  void read(std::int64_t index, Sample& sample) const override {
    rows_->read(index, sample);
    sample.documents = begins_of(index);
    for (const std::int32_t begin : sample.documents)
      sample.labels[static_cast<std::size_t>(begin == 0 ? sequence_length() : begin) - 1] = not_counted;
  }

 private:
  const std::vector<std::int32_t>& begins_of(std::int64_t index) const { return begins_[static_cast<std::size_t>(index)]; }

  std::shared_ptr<const Dataset> rows_;
  std::vector<std::vector<std::int32_t>> begins_;
};

TrainJob isolated_job(const std::string& name, const Layout& layout) {
  const auto golden = isolated_golden(name);
  TrainJob job = golden_job(name, layout);
  const auto& losses = golden.at("aux");
  job.config.router_losses = {
      .balance = losses.at("aux"), .by_layer = losses.at("scope").get<std::string>() == "layer", .z = losses.at("z")};
  job.dataset = std::make_shared<CutRows>(job.dataset, golden.at("documents"));
  return job;
}

Reference isolated_reference(const std::string& name) {
  Reference reference;
  for (const auto& step : isolated_golden(name).at("steps")) {
    reference.loss.push_back(step.at("loss"));
    reference.grad_norm.push_back(step.at("grad_norm"));
    reference.aux_loss.push_back(step.at("aux_loss"));
  }
  return reference;
}

}  // namespace

TEST_CASE("experts on isolated documents follow the golden trajectory, to the bit the same over pp, schedules and microbatches",
          "[golden][experts][documents]") {
  const std::string name = GENERATE("mixtral_tiny", "qwen2_moe_tiny");
  const Reference reference = isolated_reference(name);
  const auto steps = static_cast<std::int64_t>(reference.loss.size());
  for (const int tp : {1, 2}) {
    const RunRecord first = run(isolated_job(name, {1, tp, 1, 2}), steps);
    INFO(name << " tp " << tp);
    check_golden(first, reference);
    for (const Layout& layout :
         {Layout{2, tp, 1, 2}, Layout{4, tp, 1, 2, "gpipe"}, Layout{3, tp, 1, 2, "zb-h1"},
          Layout{2, tp, 1, 2, "interleaved", 2}, Layout{2, tp, 1, 2, "zb-v", 2}, Layout{2, tp, 1, 2, "dualpipe-v", 2},
          Layout{.pp = 2, .tp = tp, .microbatch = 2, .order = schedules::Order::ready, .recompute = Recompute::full}}) {
      INFO(to_string(layout));
      CHECK((run(isolated_job(name, layout), steps) == first));
    }
  }
}

TEST_CASE("experts on isolated documents follow the golden trajectory where ranks divide batches, experts and sequences",
          "[golden][experts][documents]") {
  const std::string name = GENERATE("mixtral_tiny", "qwen2_moe_tiny");
  const Reference reference = isolated_reference(name);
  std::vector<Layout> layouts{{1, 1, 1, 1}, {2, 1, 2, 2}, {1, 1, 4, 2}};
  for (const int zero : {1, 3}) {
    layouts.push_back({2, 1, 2, 2, "zb-h1"});
    layouts.back().zero = zero;
    layouts.back().ep = 2;
  }
  if (name == "mixtral_tiny") {  // a layer knows only its own part of a sequence
    layouts.push_back({2, 1, 1, 2});
    layouts.back().cp = 2;
  }
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    check_golden(run(isolated_job(name, layout), static_cast<std::int64_t>(reference.loss.size())), reference);
  }
}
