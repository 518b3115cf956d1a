// Training with adapters: against PEFT's trajectory, and, between layouts that must agree, bit by bit.
#include <cmath>

#include "catch.hpp"
#include "golden_run.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

constexpr const char* adapter_model = "llama3_lora_tiny";

// Has adapters of everything that can have them, with dropout, and of ranks and scales that differ.
TrainJob dropping_job(const Layout& layout) {
  ModelConfig config;
  config.hidden = 32;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.intermediate = 48;
  config.vocabulary = 259;
  config.max_positions = 64;
  config.init_std = 0.08;
  config.adapter = {.rank = 3, .alpha = 5, .dropout = 0.25, .root_scale = true};
  config.adapter.ranks["v_proj"] = 5;
  config.adapter.alphas["up_proj"] = 2;
  config.trained = {false, false, false};
  TrainJob job = random_job(config, 32, 8, layout);
  job.learning_rate.peak = 2e-2;
  return job;
}

}  // namespace

TEST_CASE("adapters follow PEFT's trajectory, to the bit the same over pp and schedules", "[golden][adapters]") {
  const Reference reference = golden_reference(adapter_model);
  const auto steps = static_cast<std::int64_t>(reference.loss.size());
  for (const int tp : {1, 2}) {
    const RunRecord first = run(golden_job(adapter_model, {1, tp, 1, 2}), steps);
    INFO("tp " << tp);
    check_golden(first, reference);
    for (const Layout layout : {Layout{2, tp, 1, 2}, Layout{4, tp, 1, 2, "gpipe"}, Layout{8, tp, 1, 2, "zb-h1"},
                                Layout{2, tp, 1, 2, "interleaved", 2}, Layout{2, tp, 1, 2, "zb-v", 2},
                                Layout{2, tp, 1, 2, "dualpipe-v", 2}, Layout{2, tp, 1, 2, "looped-bfs", 2}}) {
      INFO(to_string(layout));
      CHECK((run(golden_job(adapter_model, layout), steps) == first));
    }
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      for (const std::string schedule : {"1f1b", "zb-h1"}) {
        Layout layout{2, tp, 1, 2, schedule};
        layout.recompute = mode;
        INFO(to_string(layout));
        CHECK((run(golden_job(adapter_model, layout), steps) == first));
      }
    }
  }
}

TEST_CASE("adapters follow PEFT's trajectory where ranks divide batches, states and sequences", "[golden][adapters]") {
  const Reference reference = golden_reference(adapter_model);
  std::vector<Layout> layouts{{1, 4, 1, 2}, {1, 2, 1, 2}, {2, 2, 2, 1}, {1, 1, 1, 1}, {1, 1, 4, 2}};
  layouts[1].sequence_parallel = false;
  for (const int stage : {1, 2, 3}) {
    layouts.push_back({2, 1, 2, 2, "zb-h1"});
    layouts.back().zero = stage;
  }
  layouts.push_back({2, 1, 1, 2});
  layouts.back().cp = 2;
  layouts.push_back({2, 2, 1, 2});
  layouts.back().slices = 2;
  layouts.push_back({2, 1, 1, 2});
  layouts.back().offload = layouts.back().parameters = layouts.back().gradients = true;
  layouts.push_back({2, 1, 1, 1, "gpipe"});
  layouts.back().activations = 1;
  for (const Layout& layout : layouts) {
    INFO(to_string(layout));
    check_golden(run(golden_job(adapter_model, layout), static_cast<std::int64_t>(reference.loss.size())), reference);
  }
}

namespace {

std::string family_of_adapter() {
  return GENERATE("gpt2", "phi3", "gemma3", "granite", "olmo2", "llama3_dora", "gpt2_dora", "granite_dora");
}

std::string routed_adapter() {
  return GENERATE("mixtral", "olmoe", "qwen2_moe", "deepseek_v2", "deepseek_v3", "deepseek_v3_experts", "deepseek_v3_mtp",
                  "mixtral_parameters", "qwen3_moe_parameters", "gpt_oss_parameters");
}

void check_adapter_bits(const std::string& name, const RunRecord& expected, const std::vector<Layout>& layouts) {
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    CHECK((run(golden_adapter_job(name, layout), static_cast<std::int64_t>(expected.loss.size())) == expected));
  }
}

void check_adapter_trajectory(const std::string& name, const std::vector<Layout>& layouts) {
  const Reference reference = golden_adapter_reference(name);
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    check_golden(run(golden_adapter_job(name, layout), static_cast<std::int64_t>(reference.loss.size())), reference);
  }
}

RunRecord first_adapter_run(const std::string& name, int tp) {
  const Reference reference = golden_adapter_reference(name);
  const RunRecord first = run(golden_adapter_job(name, {1, tp, 1, 2}), static_cast<std::int64_t>(reference.loss.size()));
  INFO(name << " tp " << tp);
  check_golden(first, reference);
  return first;
}

}  // namespace

// Adapters of all families share the code of schedules, so each runs in a few layouts here, and in all in the slow cases.
TEST_CASE("adapters of other families follow PEFT's trajectories, to the bit the same over pp and schedules",
          "[golden][adapters]") {
  const std::string name = family_of_adapter();
  check_adapter_bits(name, first_adapter_run(name, 1), {{4, 1, 1, 2, "zb-h1"}});
  check_adapter_bits(name, first_adapter_run(name, 2), {with_recompute({2, 2, 1, 2, "zb-h1"}, Recompute::full)});
}

TEST_CASE("adapters of other families follow PEFT's trajectories in further layouts", "[golden][adapters][slow]") {
  const std::string name = family_of_adapter();
  check_adapter_bits(name, first_adapter_run(name, 1), {with_recompute({2, 1, 1, 2, "zb-h1"}, Recompute::full)});
  check_adapter_bits(name, first_adapter_run(name, 2), {{4, 2, 1, 2, "zb-h1"}});
  check_adapter_trajectory(name, {{2, 1, 2, 1}});
}

// A backward that computes weight gradients at once keeps their factors in the workspace, as the forward that runs again does.
TEST_CASE("adapters of all families have the same bits when their forward runs again before weight gradients that do not wait",
          "[golden][adapters]") {
  const std::string name = GENERATE("gpt2", "phi3", "olmo2", "llama3_dora", "granite_dora", "mixtral", "qwen2_moe",
                                    "deepseek_v2", "deepseek_v3", "gpt_oss_parameters");
  const RunRecord kept = run(golden_adapter_job(name, {1, 1, 1, 2}), 3);
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    const Layout layout = with_recompute({1, 1, 1, 2}, mode);
    INFO(name << " " << to_string(layout));
    CHECK((run(golden_adapter_job(name, layout), 3) == kept));
  }
}

TEST_CASE("adapters with dropout, and of different ranks and scales, train alike in every layout", "[adapters]") {
  const RunRecord plain = run(dropping_job({1, 1, 1, 2}), 3);
  for (const Layout layout : {Layout{2, 1, 1, 2}, Layout{3, 1, 1, 2, "zb-h1"}, Layout{2, 1, 1, 2, "zb-v", 2}}) {
    INFO(to_string(layout));
    CHECK((run(dropping_job(layout), 3) == plain));
  }
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    Layout layout{2, 1, 1, 2, "zb-h1"};
    layout.recompute = mode;
    INFO(to_string(layout));
    CHECK((run(dropping_job(layout), 3) == plain));
  }
  std::vector<Layout> close{{1, 2, 1, 2}, {1, 4, 1, 1}, {1, 2, 1, 2}, {1, 1, 2, 1}};
  close[2].sequence_parallel = false;
  close.push_back({1, 1, 1, 2});
  close.back().cp = 2;
  close.push_back({1, 2, 1, 1});
  close.back().slices = 2;
  for (const Layout& layout : close) {
    INFO(to_string(layout));
    check_close(run(dropping_job(layout), 3), plain);
  }
}

TEST_CASE("adapters of routed experts follow their trajectories", "[golden][adapters][experts]") {
  check_adapter_trajectory(routed_adapter(), {with_recompute({2, 2, 1, 2, "zb-h1"}, Recompute::full)});
}

TEST_CASE("adapters of routed experts have the same bits over pp and schedules", "[golden][adapters][experts]") {
  const std::string name = GENERATE("qwen2_moe", "deepseek_v3_experts", "mixtral_parameters");
  check_adapter_bits(name, first_adapter_run(name, 1), {{2, 1, 1, 2, "zb-v", 2}});
}

TEST_CASE("adapters of routed experts follow their trajectories in further layouts", "[golden][adapters][experts][slow]") {
  const std::string name = routed_adapter();
  for (const int tp : {1, 2})
    check_adapter_bits(name, first_adapter_run(name, tp),
                       {{4, tp, 1, 2, "zb-h1"},
                        {2, tp, 1, 2, "zb-v", 2},
                        with_recompute({2, tp, 1, 2, "zb-h1"}, Recompute::full),
                        with_recompute({1, tp, 1, 2}, Recompute::selective)});
}

namespace {

Layout adapters_over_experts(int zero) {
  Layout layout{2, 2, 2, 1, "zb-h1"};
  layout.ep = 2, layout.zero = zero;
  return layout;
}

// Layouts whose ranks share sequences, keep states outside of the device, or divide states or experts.
std::vector<Layout> dividing_layouts() {
  std::vector<Layout> layouts{{1, 2, 2, 2, "zb-h1"}, {2, 1, 1, 2}, {2, 1, 1, 2}, adapters_over_experts(3)};
  layouts[0].zero = 2;
  layouts[1].cp = 2;
  layouts[2].offload = layouts[2].parameters = layouts[2].gradients = true;
  return layouts;
}

}  // namespace

TEST_CASE("adapters of routed experts follow their trajectories where ranks divide batches and states",
          "[golden][adapters][experts]") {
  check_adapter_trajectory(GENERATE("qwen2_moe", "deepseek_v3_experts", "mixtral_parameters"), dividing_layouts());
}

TEST_CASE("adapters of routed experts follow their trajectories in further divisions", "[golden][adapters][experts][slow]") {
  std::vector<Layout> layouts = dividing_layouts();
  layouts.insert(layouts.end(), {{2, 1, 2, 1}, {1, 2, 1, 2}, {1, 4, 1, 2}, adapters_over_experts(0), adapters_over_experts(1)});
  layouts[5].sequence_parallel = false;
  for (const int stage : {1, 3}) {
    layouts.push_back({1, 2, 2, 2, "zb-h1"});
    layouts.back().zero = stage;
  }
  check_adapter_trajectory(
      GENERATE("mixtral", "qwen2_moe", "deepseek_v3", "deepseek_v3_experts", "deepseek_v3_mtp", "mixtral_parameters"), layouts);
}
