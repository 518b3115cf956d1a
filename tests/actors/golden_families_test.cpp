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

void check_family_bits(const std::string& name, const RunRecord& expected, const std::vector<Layout>& layouts) {
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    CHECK((run(golden_job(name, layout), 6) == expected));
  }
}

void check_family_trajectory(const std::string& name, const std::vector<Layout>& layouts) {
  const Reference reference = golden_reference(name);
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    check_golden(run(golden_job(name, layout), 6), reference);
  }
}

Layout with_zero_stage(Layout layout, int zero) {
  layout.zero = zero;
  return layout;
}
Layout with_slices(Layout layout, int slices) {
  layout.slices = slices;
  return layout;
}
Layout with_cp(Layout layout, int slices = 1) {
  layout.cp = 2;
  return with_slices(layout, slices);
}
Layout in_loss_chunks(Layout layout) {
  layout.loss_chunks = 3;
  return layout;
}

}  // namespace

// Families share the code of schedules, so each of them runs in a few layouts here, and in all of them in the slow cases.
TEST_CASE("each family follows its golden trajectory, to the bit the same over pp and schedules", "[golden][families]") {
  const std::string name = family_under_test();
  const Reference reference = golden_reference(name);
  for (const int tp : {1, 2}) {
    const RunRecord first = run(golden_job(name, {1, tp, 1, 2}), 6);
    check_golden(first, reference);
    check_family_bits(name, first,
                      {{2, tp, 1, 2, "zb-v", 2},
                       with_recompute({2, tp, 1, 2}, Recompute::selective),
                       with_recompute({8, tp, 1, 2, "zb-h1"}, Recompute::full)});
    if (tp == 1) check_family_bits(name, first, {offloading_layouts().back()});
  }
}

TEST_CASE("each family has the bits of one stage in further schedules", "[golden][families][slow]") {
  const std::string name = family_under_test();
  for (const int tp : {1, 2}) {
    const RunRecord first = run(golden_job(name, {1, tp, 1, 2}), 6);
    check_family_bits(name, first,
                      {{2, tp, 1, 2},
                       {4, tp, 1, 2, "gpipe"},
                       {8, tp, 1, 2, "zb-h1"},
                       {2, tp, 1, 2, "interleaved", 2},
                       {2, tp, 1, 2, "dualpipe-v", 2},
                       {2, tp, 1, 2, "braided-v", 2},
                       {2, tp, 1, 2, "v-min", 2},
                       {2, tp, 1, 2, "looped-bfs", 2},
                       with_recompute({2, tp, 1, 2, "zb-h1"}, Recompute::full)});
    if (tp == 1) check_family_bits(name, first, offloading_layouts());
  }
}

TEST_CASE("each family follows its golden trajectory where ranks divide batches, states, sequences and vocabularies",
          "[golden][families]") {
  const Layout divided{2, 4, 2, 1, "zb-h1"};  // more ranks than key heads
  check_family_trajectory(family_under_test(), {with_zero_stage({1, 2, 2, 2}, 3),
                                                with_zero_stage(divided, 1),
                                                with_slices({2, 1, 1, 2}, 2),
                                                with_cp({1, 2, 1, 2}),
                                                in_loss_chunks({2, 2, 1, 4}),
                                                {2, 2, 1, 2, "1f1b", 1, schedules::Order::planned, false}});
}

TEST_CASE("each family follows its golden trajectory in further divisions", "[golden][families][slow]") {
  std::vector<Layout> layouts{{2, 1, 2, 2}, {1, 2, 2, 1}, {1, 4, 1, 2}, {2, 4, 2, 1}};
  for (const int zero : {1, 2}) layouts.push_back(with_zero_stage({1, 2, 2, 2}, zero));
  for (const int zero : {2, 3})
    layouts.push_back(with_zero_stage({2, 4, 2, 1, "zb-h1", 1, schedules::Order::planned, zero != 2}, zero));
  layouts.push_back(with_slices({2, 1, 1, 2}, 4));
  for (const int slices : {1, 2}) layouts.push_back(with_cp({1, 1, 1, 2}, slices));
  check_family_trajectory(family_under_test(), layouts);
}
