// Every model family against its reference trajectory, on layouts that divide its model, its batches and its sequences in every
// way that there is, to the bit the same where only stages and schedules differ.
#include "catch.hpp"
#include "golden_run.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

std::string family_under_test() {
  return GENERATE("qwen2_tiny", "llama_biases_yarn_tiny", "qwen3_tiny", "mistral_window_tiny", "gemma3_tiny", "smollm3_tiny",
                  "granite_tiny", "olmo2_tiny", "phi3_tiny", "phi3_longrope_tiny", "seed_oss_tiny", "mixtral_tiny",
                  "qwen2_moe_tiny", "qwen3_moe_tiny", "olmoe_tiny", "gpt_oss_tiny", "deepseek_v2_tiny",
                  "deepseek_v2_groups_tiny", "deepseek_v3_tiny", "deepseek_v3_mtp_tiny");
}

// The ways of keeping a stage's state outside of its device.
std::vector<Layout> offloading_layouts() {
  std::vector<Layout> layouts(3, {2, 1, 1, 2});
  layouts[0].offload = true;
  layouts[1].parameters = layouts[1].gradients = true;
  layouts[2].offload = layouts[2].parameters = layouts[2].gradients = true;
  return layouts;
}

Layout with_recompute(Layout layout, Recompute recompute) {
  layout.recompute = recompute;
  return layout;
}

}  // namespace

TEST_CASE("each family follows its golden trajectory, to the bit the same over pp and schedules", "[golden][families]") {
  const std::string name = family_under_test();
  const Reference reference = golden_reference(name);
  for (const int tp : {1, 2}) {
    const RunRecord first = run(golden_job(name, {1, tp, 1, 2}), 6);
    INFO(name << " tp " << tp);
    check_golden(first, reference);
    for (const Layout layout :
         {Layout{2, tp, 1, 2}, Layout{4, tp, 1, 2, "gpipe"}, Layout{8, tp, 1, 2, "zb-h1"},
          Layout{2, tp, 1, 2, "interleaved", 2}, Layout{2, tp, 1, 2, "zb-v", 2}, Layout{2, tp, 1, 2, "dualpipe-v", 2},
          Layout{2, tp, 1, 2, "braided-v", 2}, Layout{2, tp, 1, 2, "v-min", 2}, Layout{2, tp, 1, 2, "looped-bfs", 2},
          with_recompute({2, tp, 1, 2}, Recompute::selective), with_recompute({2, tp, 1, 2, "zb-h1"}, Recompute::full)}) {
      INFO(to_string(layout));
      CHECK((run(golden_job(name, layout), 6) == first));
    }
    if (tp == 2) continue;
    for (const Layout& layout : offloading_layouts()) {
      INFO(to_string(layout));
      CHECK((run(golden_job(name, layout), 6) == first));
    }
  }
}

TEST_CASE("each family follows its golden trajectory where ranks divide batches, states, sequences and vocabularies",
          "[golden][families]") {
  const std::string name = family_under_test();
  const Reference reference = golden_reference(name);
  std::vector<Layout> layouts{
      {2, 1, 2, 2}, {1, 2, 2, 1}, {1, 4, 1, 2}, {2, 4, 2, 1}, {2, 2, 1, 2, "1f1b", 1, schedules::Order::planned, false}};
  for (const int zero : {1, 2, 3}) {
    layouts.push_back({1, 2, 2, 2});
    layouts.back().zero = zero;
    layouts.push_back({2, 4, 2, 1, "zb-h1", 1, schedules::Order::planned, zero != 2});  // more ranks than key heads
    layouts.back().zero = zero;
  }
  for (const int slices : {2, 4}) {
    layouts.push_back({2, 1, 1, 2});
    layouts.back().slices = slices;
  }
  for (const int slices : {1, 2}) {
    layouts.push_back({1, 1, 1, 2});
    layouts.back().cp = 2, layouts.back().slices = slices;
  }
  layouts.push_back({1, 2, 1, 2});
  layouts.back().cp = 2;
  layouts.push_back({2, 2, 1, 4});
  layouts.back().loss_chunks = 3;
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    check_golden(run(golden_job(name, layout), 6), reference);
  }
}
