// Routed experts whose matrices are multiplied in 8 bits.
#include <algorithm>
#include <cmath>
#include <optional>

#include "actors/cuda/gpu_job.hpp"
#include "catch.hpp"
#include "model/weights/peft_folder.hpp"

namespace pipetrain::test {
namespace {

constexpr std::int64_t expert_steps = 8;

// shared: the inner columns of a shared expert; 0: there is none.
TrainJob experts_job(std::int64_t shared, const Layout& layout) {
  ModelConfig config = half_config();
  config.family = shared > 0 ? Family::qwen2_moe : Family::mixtral;
  config.layers = 2;
  config.intermediate = 128;
  config.experts = {.count = 8, .chosen = 2, .intermediate = 128, .normalised = true};
  config.experts.shared_intermediate = shared;
  config.experts.shared_gate = shared > 0;
  config.router_losses.balance = 0.01;
  TrainJob job = random_job(config, 128, 8, layout);
  job.learning_rate.peak = 1e-3;
  return job;
}

// Nothing where the GPU is absent or lacks the products of experts in 8 bits.
std::optional<RunRecord> run_experts(std::int64_t shared, const Layout& layout, const Precision& precision) {
  TrainJob job = experts_job(shared, layout);
  if (!on_gpus(job, std::clamp(cuda_device_count(), 1, 2), precision)) return std::nullopt;
  if (precision.fp8_products && !cuda_is_hopper(0)) return skip("this GPU has no Hopper products"), std::nullopt;
  return run(std::move(job), expert_steps);
}

void check_losses_near(const RunRecord& record, const RunRecord& reference, double tolerance) {
  REQUIRE(record.loss.size() == reference.loss.size());
  for (std::size_t step = 0; step < record.loss.size(); ++step) {
    INFO("step " << step + 1 << ": " << record.loss[step] << " and " << reference.loss[step]);
    CHECK(std::abs(record.loss[step] / reference.loss[step] - 1) <= tolerance);
  }
}

}  // namespace

TEST_CASE("experts in 8 bits follow bf16, and have the same bits over pp, schedules and recomputation", "[gpu][experts]") {
  for (const std::int64_t shared : {0, 128}) {
    INFO("a shared expert of " << shared << " columns");
    const auto one = run_experts(shared, {1, 1, 1, 2}, Precision::fp8());
    if (!one) return;
    const auto reference = run_experts(shared, {1, 1, 1, 2}, Precision::bf16());
    CHECK_FALSE((*one == *reference));
    check_losses_near(*one, *reference, 0.02);
    CHECK(one->loss.back() < one->loss.front());
    Layout selective{1, 1, 1, 2}, full{2, 1, 1, 2, "zb-v", 2};
    selective.recompute = Recompute::selective, full.recompute = Recompute::full;
    for (const Layout& layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, selective, full}) {
      INFO(to_string(layout));
      CHECK((*run_experts(shared, layout, Precision::fp8()) == *one));
    }
  }
}

TEST_CASE("experts in 8 bits that ranks divide follow those of one rank, alike at every pp and in braids", "[gpu][experts]") {
  const auto one = run_experts(0, {1, 1, 2, 1}, Precision::fp8());
  if (!one) return;
  Layout divided{1, 1, 2, 1}, piped{2, 1, 2, 1, "zb-h1"}, braided{2, 1, 2, 1, "braided-v", 2}, sharded{1, 1, 2, 1};
  divided.ep = piped.ep = braided.ep = sharded.ep = 2;
  sharded.zero = 3;
  const auto over_two = run_experts(0, divided, Precision::fp8());
  check_losses_near(*over_two, *one, 0.02);
  for (const Layout& layout : {piped, braided}) CHECK((*run_experts(0, layout, Precision::fp8()) == *over_two));
  check_losses_near(*run_experts(0, sharded, Precision::fp8()), *over_two, 1e-3);
  Layout inner{1, 2, 1, 2};
  check_losses_near(*run_experts(0, inner, Precision::fp8()), *run_experts(0, inner, Precision::bf16()), 0.02);
}

TEST_CASE("adapters of experts in 8 bits follow bf16, and have the same bits over pp", "[gpu][experts][adapters]") {
  const auto adapted = [](const Layout& layout, const Precision& precision) -> std::optional<RunRecord> {
    TrainJob job = experts_job(128, layout);
    job.config.adapter = {.rank = 16, .alpha = 32};
    job.config.trained = {false, false, false};
    job.initial.weights = new_adapter_weights(job.config, job.initial.weights, 7);
    if (!on_gpus(job, 1, precision)) return std::nullopt;
    if (!cuda_is_hopper(0)) return skip("this GPU has no Hopper products"), std::nullopt;
    return run(std::move(job), expert_steps);
  };
  const auto one = adapted({1, 1, 1, 2}, Precision::fp8());
  if (!one) return;
  check_losses_near(*one, *adapted({1, 1, 1, 2}, Precision::bf16()), 0.02);
  CHECK((*adapted({2, 1, 1, 2, "zb-h1"}, Precision::fp8()) == *one));
}

}  // namespace pipetrain::test
