// GPUs that divide the experts follow the golden trajectories, with equal bits over pp, schedules and reruns; capacities and
// biases of experts give what they give on CPUs.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "actors/cuda/gpu_job.hpp"
#include "actors/training/run/routed_layer.hpp"
#include "catch.hpp"
#include "model/weights/equal_logits.hpp"

namespace pipetrain::test {
namespace {

Layout divided_experts(int ep, Layout layout, int zero = 0) {
  layout.ep = ep;
  layout.zero = zero;
  return layout;
}

// Returns the GPUs among which ranks are dealt in turn.
int gpus_of_experts() { return std::clamp(cuda_device_count(), 1, 2); }

RunRecord run_experts_on_gpus(const std::string& name, const Layout& layout, const Precision& precision, std::int64_t steps,
                              int gpus = gpus_of_experts()) {
  TrainJob job = golden_job(name, layout);
  REQUIRE(on_gpus(job, gpus, precision));
  return run(std::move(job), steps);
}

// A model whose grouped products are those of Hopper GPUs.
TrainJob routed_half_job(const Layout& layout) {
  ModelConfig config = half_config();
  config.family = Family::mixtral;
  config.layers = 2;
  config.intermediate = 128;
  config.experts = {.count = 8, .chosen = 2, .intermediate = 128, .normalised = true};
  config.router_losses.balance = 0.01;
  return random_job(config, 128, 8, layout);
}

}  // namespace

TEST_CASE("GPUs that divide the experts follow the golden trajectories", "[gpu][golden][families][experts]") {
  if (!needs_gpus(cuda_device_count(), 1)) return;
  for (const std::string name : {"mixtral_tiny", "qwen2_moe_tiny", "qwen3_moe_tiny", "olmoe_tiny", "gpt_oss_tiny",
                                 "deepseek_v2_tiny", "deepseek_v3_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto all = static_cast<std::int64_t>(reference.loss.size());
    const RunRecord first = run_experts_on_gpus(name, divided_experts(2, {1, 1, 2, 2}), Precision::fp32(), all);
    check_golden(first, reference);
    CHECK((run_experts_on_gpus(name, divided_experts(2, {2, 1, 2, 2, "zb-h1"}), Precision::fp32(), all) == first));
    CHECK((run_experts_on_gpus(name, divided_experts(2, {2, 1, 2, 2, "zb-v", 2}), Precision::fp32(), all) == first));
    check_golden(run_experts_on_gpus(name, divided_experts(2, {1, 2, 2, 2}), Precision::fp32(), all), reference);
  }
}

// Each rank has a GPU of its own: four replicas that share GPUs hang now and then (bench/results/gpu.md).
TEST_CASE("four GPUs that divide the experts follow the golden trajectories", "[gpu][golden][families][experts]") {
  if (!needs_gpus(cuda_device_count(), 4)) return;
  for (const std::string name : {"mixtral_tiny", "qwen2_moe_tiny", "qwen3_moe_tiny", "olmoe_tiny", "gpt_oss_tiny",
                                 "deepseek_v2_tiny", "deepseek_v3_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto all = static_cast<std::int64_t>(reference.loss.size());
    // Two groups of parameters are summed over replicas where dp is larger than ep.
    for (const Layout& layout :
         {divided_experts(2, {1, 1, 4, 1}, 1), divided_experts(2, {1, 1, 4, 1}, 3), divided_experts(4, {1, 1, 4, 1}, 2)}) {
      INFO(name << ", " << to_string(layout));
      check_golden(run_experts_on_gpus(name, layout, Precision::fp32(), all, 4), reference);
    }
  }
}

TEST_CASE("GPUs that divide the experts give the same bits in bf16 again and at every pp and recomputed", "[gpu][experts]") {
  if (!needs_gpus(cuda_device_count(), 1)) return;
  constexpr std::int64_t steps = 4;
  const auto on_two = [&](Layout layout, Recompute mode = Recompute::none) {
    layout.recompute = mode;
    TrainJob job = routed_half_job(layout);
    REQUIRE(on_gpus(job, gpus_of_experts(), Precision::bf16()));
    return run(std::move(job), steps);
  };
  const Layout plain = divided_experts(2, {1, 1, 2, 1});
  const RunRecord one = on_two(plain);
  CHECK((on_two(plain) == one));
  CHECK((on_two(divided_experts(2, {2, 1, 2, 1, "zb-h1"}, 1)) == one));
  CHECK((on_two(plain, Recompute::selective) == one));
  CHECK((on_two(plain, Recompute::full) == one));
  Layout whole = plain;
  whole.ep = 1;
  const RunRecord undivided = on_two(whole);
  for (std::size_t step = 0; step < one.loss.size(); ++step)
    CHECK(undivided.loss[step] == Approx(one.loss[step]).epsilon(2e-3));
}

TEST_CASE("capacities and biases of experts give on GPUs what they give on CPUs", "[gpu][experts]") {
  if (!needs_gpus(cuda_device_count(), 1)) return;
  for (const bool capacity : {true, false}) {
    const auto job_with = [&](const Layout& layout) {
      TrainJob job = golden_job("qwen3_moe_tiny", layout);
      if (capacity) job.config.router_rules.capacity = 1;
      if (!capacity) job.config.router_rules.bias_rate = 0.02F;
      return job;
    };
    const RunRecord plain = run(golden_job("qwen3_moe_tiny", {1, 1, 1, 2}), 5), wanted = run(job_with({1, 1, 1, 2}), 5);
    CHECK(wanted.loss != plain.loss);
    for (const Layout& layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, divided_experts(2, {1, 1, 2, 2})}) {
      INFO(to_string(layout) << (capacity ? ", capacity" : ", biases"));
      TrainJob job = job_with(layout);
      REQUIRE(on_gpus(job, gpus_of_experts(), Precision::fp32()));
      const RunRecord found = run(std::move(job), 5);
      for (std::size_t step = 0; step < found.loss.size(); ++step)
        CHECK(found.loss[step] == Approx(wanted.loss[step]).epsilon(2e-5));
    }
  }
}

TEST_CASE("a router that sends every token to the same experts trains on GPUs that divide them", "[gpu][experts]") {
  if (!needs_gpus(cuda_device_count(), 1)) return;
  for (const int ep : {1, 2}) {
    TrainJob job = routed_half_job(divided_experts(ep, {1, 1, 2, 1}, 1));
    job.initial.weights = std::make_shared<EqualLogits>(job.initial.weights);
    REQUIRE(on_gpus(job, gpus_of_experts(), Precision::bf16()));
    Trainer trainer(std::move(job));
    for (int step = 0; step < 2; ++step) {
      const StepReport report = trainer.step();
      CHECK(std::isfinite(report.loss));
      CHECK(expert_load(report.routed).max > 3.9);
    }
  }
}

}  // namespace pipetrain::test
