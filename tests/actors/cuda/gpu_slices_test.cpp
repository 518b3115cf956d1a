// Runs on GPUs whose microbatches pass the pipeline in slices of their sequence.
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/cuda/gpu_job.hpp"
#include "actors/golden_run.hpp"
#include "catch.hpp"
#include "data/samples/split.hpp"
#include "model/config/mode_names.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

Layout sliced_on_gpus(int slices, Layout layout = {}) {
  layout.slices = slices;
  return layout;
}

// The samples of another dataset, in isolated documents of 1 to 300 tokens.
class Apart final : public Dataset {
 public:
  explicit Apart(std::shared_ptr<const Dataset> all) : Dataset(all->sequence_length()), all_(std::move(all)) {}
  std::int64_t size() const override { return all_->size(); }
  std::uint64_t content() const override { return all_->content(); }
  bool isolates_documents() const override { return true; }
  void read(std::int64_t index, Sample& sample) const override {
    all_->read(index, sample);
    sample.documents.clear();
    for (std::int64_t begin = 0; begin < sequence_length(); begin += 1 + (index * 71 + begin * 13) % 300)
      sample.documents.push_back(static_cast<std::int32_t>(begin));
  }

 private:
  std::shared_ptr<const Dataset> all_;
};

// Sequences of `sequence` tokens, with a rising rate under which no update changes its sign.
TrainJob sliced_job(std::int64_t sequence, const Layout& layout) {
  ModelConfig config = half_config();
  config.max_positions = 1024;
  TrainJob job = random_job(config, sequence, 4, layout);
  job.learning_rate.warmup_steps = 10;
  return job;
}

std::optional<RunRecord> run_slices_on_gpu(TrainJob job, const Precision& precision, std::int64_t steps) {
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  if (precision == Precision::fp16()) job.loss_scale = {.dynamic = true, .initial = 1024};
  return run(std::move(job), steps);
}

// Compares losses and norms, which change with the places of rounding.
void check_close_gpu_slices(const RunRecord& a, const RunRecord& b, double loss, double norm) {
  REQUIRE(a.loss.size() == b.loss.size());
  for (std::size_t step = 0; step < a.loss.size(); ++step) {
    INFO("step " << step + 1 << ": " << a.loss[step] << " and " << b.loss[step] << ", norms " << a.grad_norm[step] << " and "
                 << b.grad_norm[step]);
    CHECK(std::abs(a.loss[step] / b.loss[step] - 1) <= loss);
    CHECK(std::abs(a.grad_norm[step] / b.grad_norm[step] - 1) <= norm);
  }
}

}  // namespace

TEST_CASE("slices on one GPU follow the golden trajectories in fp32, to the bit the same over pp and chunks",
          "[gpu][golden][slices]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    for (const int slices : {2, 4}) {
      const auto first = run_slices_on_gpu(golden_job(name, sliced_on_gpus(slices)), Precision::fp32(), steps);
      if (!first) return;
      INFO(name << ", " << slices << " slices");
      check_golden(*first, reference);
      for (const Layout& layout : {Layout{}, Layout{2}, Layout{4}, Layout{2, 1, 1, 1, "interleaved", 2}}) {
        if (name == "llama2_tiny" && layout.chunks > 1) continue;
        INFO(to_string(layout));
        CHECK((run_slices_on_gpu(golden_job(name, sliced_on_gpus(slices, layout)), Precision::fp32(), steps) == first));
      }
    }
  }
}

TEST_CASE("slices on one GPU in 16 bits give what whole sequences give, the same bits in every layout", "[gpu][slices]") {
  struct Case {
    Precision precision;
    std::int64_t sequence;
    int slices;
  };
  const std::vector<Case> cases{
      {Precision::bf16(), 512, 2},
      {Precision::bf16(), 512, 4},
      {Precision::bf16(), 500, 3},  // lengths that Hopper's kernel does not support
      {Precision::fp16(), 512, 4},
  };
  Layout selective{2, 1, 1, 2}, full{2, 1, 1, 2};
  selective.recompute = Recompute::selective, full.recompute = Recompute::full;
  for (const auto& [precision, sequence, slices] : cases) {
    const auto on_gpu = [&, precision = precision, sequence = sequence](const Layout& layout) {
      return run_slices_on_gpu(sliced_job(sequence, layout), precision, 6);
    };
    const Layout one{1, 1, 1, 2};
    const auto whole = on_gpu(one), first = on_gpu(sliced_on_gpus(slices, one));
    if (!whole) return;
    INFO(numbers_name(precision) << ", " << slices << " slices of " << sequence);
    check_close_gpu_slices(*first, *whole, 5e-3, 5e-2);
    for (const Layout& same :
         {one, Layout{2, 1, 1, 2}, Layout{4, 1, 1, 2}, Layout{2, 1, 1, 2, "interleaved", 2}, selective, full}) {
      INFO(to_string(same));
      CHECK((on_gpu(sliced_on_gpus(slices, same)) == first));
    }
    for (const Layout& ranks : {Layout{1, 2, 1, 2}, Layout{2, 1, 2, 1}}) {
      INFO(to_string(ranks));
      check_close_gpu_slices(*on_gpu(sliced_on_gpus(slices, ranks)), *whole, 5e-3, 5e-2);
    }
  }
}

TEST_CASE("an evaluation in slices on a GPU has the loss of whole sequences, and leaves no trace", "[gpu][slices]") {
  const auto evaluated = [](int slices, int pp) {
    TrainJob job = sliced_job(512, sliced_on_gpus(slices, {.pp = pp}));
    on_gpus(job, 1, Precision::bf16());
    job.evaluation = split_dataset(job.dataset, 0.1, 3).evaluation;
    Trainer trainer(std::move(job));
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) {
      losses.push_back(trainer.evaluate()->loss);
      losses.push_back(trainer.step().loss);
    }
    return losses;
  };
  if (!needs_gpus(cuda_device_count())) return;
  const auto whole = evaluated(1, 1), in_slices = evaluated(4, 1);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(in_slices[i] == Approx(whole[i]).epsilon(2e-3));
  CHECK(evaluated(4, 2) == in_slices);
}

TEST_CASE("slices on a GPU whose states are divided or lie in host memory give the bits of those that are not",
          "[gpu][slices]") {
  const auto on_gpu = [](const Layout& layout, const Offload& offload) {
    TrainJob job = sliced_job(512, sliced_on_gpus(4, layout));
    job.offload = offload;
    return run_slices_on_gpu(std::move(job), Precision::bf16(), 4);
  };
  for (Layout layout : {Layout{2, 1, 1, 2}, Layout{2, 1, 2, 1}}) {
    const auto expected = on_gpu(layout, {});
    if (!expected) return;
    INFO(to_string(layout));
    CHECK((on_gpu(layout, {.optimizer = true}) == expected));
    if (layout.dp == 1) CHECK((on_gpu(layout, {.optimizer = true, .parameters = true, .gradients = true}) == expected));
    for (layout.zero = 1; layout.dp > 1 && layout.zero <= most_zero_stages; ++layout.zero) {
      INFO("zero " << layout.zero);
      CHECK((on_gpu(layout, {}) == expected));
    }
  }
}

TEST_CASE("slices on one GPU drop what whole sequences drop and keep their documents apart, the same bits in every layout",
          "[gpu][slices][documents]") {
  struct Case {
    Precision precision;
    std::int64_t sequence;
    int slices;
    double loss, norm;
  };
  const std::vector<Case> cases{
      {Precision::fp32(), 512, 4, 1e-5, 1e-4},
      {Precision::bf16(), 512, 2, 5e-3, 5e-2},
      {Precision::bf16(), 1024, 4, 5e-3, 5e-2},
      {Precision::bf16(), 500, 3, 5e-3, 5e-2},  // lengths that Hopper's kernel does not support
      {Precision::fp16(), 512, 4, 5e-3, 5e-2},
  };
  Layout selective{2, 1, 1, 2}, full{2, 1, 1, 2};
  selective.recompute = Recompute::selective, full.recompute = Recompute::full;
  for (const Case& one : cases) {
    for (const auto& [dropout, isolated] : {std::pair{0.1, false}, {0.0, true}, {0.1, true}}) {
      const auto on_gpu = [&, dropout = dropout, isolated = isolated](const Layout& layout) {
        TrainJob job = sliced_job(one.sequence, layout);
        job.config.dropout = {.embedding = dropout, .attention = dropout, .residual = dropout};
        if (isolated) job.dataset = std::make_shared<Apart>(job.dataset);
        return run_slices_on_gpu(std::move(job), one.precision, 4);
      };
      const Layout plain{1, 1, 1, 2};
      const auto whole = on_gpu(plain), first = on_gpu(sliced_on_gpus(one.slices, plain));
      if (!whole) return;
      INFO(numbers_name(one.precision) << ", " << one.slices << " slices of " << one.sequence << ", dropout " << dropout
                                       << (isolated ? ", documents apart" : ""));
      check_close_gpu_slices(*first, *whole, one.loss, one.norm);
      for (const Layout& same : {plain, Layout{2, 1, 1, 2}, Layout{2, 1, 1, 2, "interleaved", 2}, selective, full}) {
        INFO(to_string(same));
        CHECK((on_gpu(sliced_on_gpus(one.slices, same)) == first));
      }
      for (const Layout& ranks : {Layout{1, 2, 1, 2}, Layout{2, 1, 2, 1}}) {
        INFO(to_string(ranks));
        check_close_gpu_slices(*on_gpu(sliced_on_gpus(one.slices, ranks)), *whole, one.loss, one.norm);
      }
    }
  }
}
