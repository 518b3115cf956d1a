// Rows of different length with some uncounted labels, compared with trajectories in float64
// (tests/golden/make_masked.py).
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "golden_run.hpp"
#include "paths.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

TrainJob masked_job(const std::string& name, const Layout& layout) {
  TrainJob job = golden_job(name, layout);
  DatasetOptions data;
  data.inputs = {{std::filesystem::path(test_data()) / "golden" / name / "masked.jsonl", {}}};
  data.vocabulary = job.config.vocabulary;
  data.max_positions = job.config.max_positions;
  job.dataset = open_dataset(data);
  return job;
}

nlohmann::json masked_steps(const std::string& name) {
  std::ifstream file(test_data() + "/golden/" + name + "/masked.json");
  return nlohmann::json::parse(file).at("steps");
}

}  // namespace

TEST_CASE("the loss on masked labels follows the trajectory on every layout, to the bit the same over pp and schedule",
          "[golden]") {
  for (const std::string name : {"llama3_tiny", "gpt2_tiny"}) {
    const auto steps = masked_steps(name);
    REQUIRE(steps.size() == 6);
    RunRecord first;
    for (const Layout& layout :
         {Layout{}, Layout{.pp = 4}, Layout{.pp = 2, .schedule = "zb-v", .chunks = 2},
          Layout{.pp = 3, .order = schedules::Order::ready, .recompute = Recompute::full}, Layout{.dp = 2, .microbatch = 2},
          Layout{.tp = 2, .microbatch = 4}, Layout{.pp = 2, .tp = 2, .dp = 2, .sequence_parallel = false}}) {
      INFO(name << " " << to_string(layout));
      const RunRecord record = run(masked_job(name, layout), 6);
      for (std::size_t step = 0; step < 6; ++step) {
        INFO("step " << step + 1);
        CHECK(record.tokens[step] == steps[step].at("tokens"));
        CHECK(std::abs(record.loss[step] / steps[step].at("loss").get<double>() - 1) <= 2e-5);
        CHECK(std::abs(record.grad_norm[step] / steps[step].at("grad_norm").get<double>() - 1) <= 1e-4);
      }
      const bool same_order_of_sums = layout.tp == 1 && layout.dp == 1 && layout.microbatch == 1;
      if (first.loss.empty()) first = record;
      if (same_order_of_sums) CHECK(record == first);
    }
  }
}
