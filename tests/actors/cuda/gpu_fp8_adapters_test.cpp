// Adapters on frozen matrices that are multiplied in 8 bits, and preferences in fp8.
#include <cmath>
#include <optional>
#include <vector>

#include "actors/cuda/gpu_job.hpp"
#include "actors/preferences/preference_run.hpp"
#include "catch.hpp"
#include "model/config/mode_names.hpp"
#include "model/weights/peft_folder.hpp"

namespace pipetrain::test {
namespace {

constexpr std::int64_t steps = 12;

struct AdapterKind {
  bool magnitudes = false;
  double dropout = 0;
};

TrainJob adapted_job(const AdapterKind& kind, const Layout& layout) {
  ModelConfig config = half_config();
  config.adapter = {.rank = 16, .alpha = 32, .dropout = kind.dropout, .magnitudes = kind.magnitudes};
  config.trained = {false, false, false};
  TrainJob job = random_job(config, 128, 8, layout);
  job.initial.weights = new_adapter_weights(config, job.initial.weights, 7);
  job.learning_rate.peak = 2e-3;
  return job;
}

// Nothing where the GPU is absent or does not multiply in this precision.
std::optional<RunRecord> run_adapted(const AdapterKind& kind, const Layout& layout, const Precision& precision) {
  TrainJob job = adapted_job(kind, layout);
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  if (!computes(precision)) return skip("this GPU does not multiply in 8 bits"), std::nullopt;
  return run(std::move(job), steps);
}

void check_near(const RunRecord& record, const RunRecord& reference) {
  REQUIRE(record.loss.size() == reference.loss.size());
  for (std::size_t step = 0; step < record.loss.size(); ++step) {
    INFO("step " << step + 1 << ": " << record.loss[step] << " and " << reference.loss[step]);
    CHECK(std::abs(record.loss[step] / reference.loss[step] - 1) <= 0.05);
  }
}

}  // namespace

TEST_CASE("adapters on matrices in 8 bits follow bf16, and have the same bits over pp, schedules and recomputation",
          "[gpu][adapters]") {
  for (const AdapterKind& kind : {AdapterKind{}, AdapterKind{true, 0}, AdapterKind{false, 0.25}}) {
    for (const Precision& precision : {Precision::fp8(), Precision::fp8_of_blocks()}) {
      INFO(numbers_name(precision) << ", magnitudes " << kind.magnitudes << ", dropout " << kind.dropout);
      const auto one = run_adapted(kind, {1, 1, 1, 2}, precision);
      if (!one) return;
      const auto reference = run_adapted(kind, {1, 1, 1, 2}, Precision::bf16());
      CHECK_FALSE((*one == *reference));
      check_near(*one, *reference);
      CHECK(one->loss.back() < one->loss.front());
      Layout selective{1, 1, 1, 2}, full{2, 1, 1, 2, "zb-v", 2};
      selective.recompute = Recompute::selective, full.recompute = Recompute::full;
      for (const Layout& layout : {Layout{2, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, selective, full}) {
        INFO(to_string(layout));
        CHECK((*run_adapted(kind, layout, precision) == *one));
      }
    }
  }
}

TEST_CASE("adapters on matrices in 8 bits over tensor-parallel ranks follow bf16, alike at every pp", "[gpu][adapters]") {
  for (const bool magnitudes : {false, true}) {
    for (const bool sequence_parallel : {true, false}) {
      Layout layout{1, 2, 1, 2}, piped{2, 2, 1, 2, "zb-h1"};
      layout.sequence_parallel = piped.sequence_parallel = sequence_parallel;
      INFO("magnitudes " << magnitudes << ", " << to_string(layout));
      const auto one = run_adapted({magnitudes}, layout, Precision::fp8());
      if (!one) return;
      check_near(*one, *run_adapted({magnitudes}, layout, Precision::bf16()));
      CHECK((*run_adapted({magnitudes}, piped, Precision::fp8()) == *one));
    }
  }
}

TEST_CASE("replicas that divide weights train adapters on matrices in 8 bits to the same bits", "[gpu][adapters]") {
  const auto divided = [](int stage) {
    TrainJob job = adapted_job({}, {1, 1, 2, 2});
    job.zero.stage = stage;
    return job;
  };
  TrainJob whole = divided(0);
  if (!on_gpus(whole, 1, Precision::fp8())) return;
  if (!computes(Precision::fp8())) return skip("this GPU does not multiply in 8 bits");
  const RunRecord expected = run(std::move(whole), steps);
  for (const int stage : {1, 3}) {
    TrainJob job = divided(stage);
    on_gpus(job, 1, Precision::fp8());
    INFO("zero " << stage);
    CHECK((run(std::move(job), steps) == expected));
  }
}

TEST_CASE("preferences in fp8 follow bf16 with and without adapters, and have the same bits over pp", "[gpu][adapters]") {
  const auto compared = [](bool adapts, const Layout& layout, const Precision& precision) -> std::optional<RunRecord> {
    ModelConfig config = half_config();
    if (adapts) {
      config.adapter = {.rank = 16, .alpha = 32};
      config.trained = {false, false, false};
    }
    TrainJob job = random_job(config, 128, 8, layout);
    set_preferences(preference_golden(), "dpo", layout, job, 128);
    job.initial.reference = job.initial.weights;
    if (!on_gpus(job, 1, precision)) return std::nullopt;
    if (!computes(precision)) return skip("this GPU does not multiply in 8 bits"), std::nullopt;
    return run_preferences(std::move(job), 4).run;
  };
  for (const bool adapts : {false, true}) {
    INFO("with adapters: " << adapts);
    const auto one = compared(adapts, {1, 1, 1, 1}, Precision::fp8());
    if (!one) return;
    CHECK(one->loss.front() == Approx(std::log(2)).epsilon(1e-4));  // the model is its own reference
    check_near(*one, *compared(adapts, {1, 1, 1, 1}, Precision::bf16()));
    CHECK((*compared(adapts, {2, 1, 1, 1, "zb-h1"}, Precision::fp8()) == *one));
  }
}

}  // namespace pipetrain::test
