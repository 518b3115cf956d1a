// Layouts that must agree bit by bit: all of a matrix, and random ones.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

// Every order that the schedule allows, on two stages.
std::vector<Layout> all_schedules_on_two_stages(int tp, int dp) {
  std::vector<Layout> layouts;
  for (const auto& schedule : schedules::all_schedules())
    for (const auto order : {Order::planned, Order::ready})
      if (order == Order::planned || schedule.has_ready_rule)
        layouts.push_back({2, tp, dp, 1, std::string(schedule.name), schedule.default_chunks, order});
  return layouts;
}

// PIPETRAIN_LAYOUT_SEED repeats the same layouts.
std::uint32_t layout_seed() {
  if (const char* given = std::getenv("PIPETRAIN_LAYOUT_SEED")) return static_cast<std::uint32_t>(std::stoul(given));
  return std::random_device{}();
}

class RandomLayouts {
 public:
  explicit RandomLayouts(std::uint32_t seed) : random_(seed) {}

  TinyRun next_with_experts() {
    TinyRun tiny = next();
    tiny.family = Family::qwen2_moe;
    tiny.layout.ep = number(1, 3);
    tiny.layout.dp *= tiny.layout.ep;
    limit_braids(tiny.layout);
    return tiny;
  }

  TinyRun next() {
    TinyRun tiny;
    constexpr Family families[] = {Family::llama, Family::gpt2, Family::qwen2, Family::qwen3, Family::mistral, Family::gemma3};
    tiny.family = families[number(0, static_cast<int>(std::size(families)) - 1)];
    tiny.tied = flag();
    tiny.sequence = number(1, 31);
    tiny.microbatches = number(1, 12);
    Layout& layout = tiny.layout;
    layout.pp = number(1, 4);
    layout.tp = number(1, 2);
    layout.dp = number(1, 2);
    layout.microbatch = number(1, 2);
    const auto& all = schedules::all_schedules();
    const auto& schedule = all[static_cast<std::size_t>(number(0, static_cast<int>(all.size()) - 1))];
    layout.schedule = schedule.name;
    layout.chunks = schedule.chunks_can_vary ? number(1, 3) : schedule.default_chunks;
    layout.order = schedule.has_ready_rule && flag() ? Order::ready : Order::planned;
    layout.sequence_parallel = flag();
    layout.threads = number(1, 3);
    layout.recompute = static_cast<Recompute>(number(0, 2));
    tiny.from_file = flag();
    if (layout.dp > 1) layout.zero = number(0, layout.order == Order::ready ? 2 : 3);
    const int fewest = (layout.pp * layout.chunks + 1) / 2;  // a layer is two blocks, and a chunk at least one
    tiny.layers = number(fewest, fewest + 1);
    if (flag()) layout.cut = cut(layout.pp * layout.chunks, 2 * tiny.layers);
    tiny.dropout = flag() ? 0.3 : 0;
    tiny.isolated = flag();
    tiny.precision = number(0, 2);
    layout.loss_chunks = number(1, 4);
    if (flag()) {
      layout.cp = number(2, 3);
      tiny.sequence = 2 * layout.cp * number(1, 5);
    }
    if (number(0, 11) == 0) offload(layout);
    limit_braids(layout);
    return tiny;
  }

 private:
  Cut cut(int parts, int blocks) {
    Cut counts(static_cast<std::size_t>(parts), 1);
    for (int left = blocks - parts; left > 0; --left) ++counts[static_cast<std::size_t>(number(0, parts - 1))];
    return counts;
  }
  void offload(Layout& layout) {
    layout.offload = flag();
    layout.gradients = flag();
    layout.parameters = layout.order == Order::planned && flag();
    layout.prefetch = number(0, 2);
  }
  // Braids that exchange do not support weights that arrive for one action at a time.
  static void limit_braids(Layout& layout) {
    if (layout.schedule != "braided-v" || (layout.tp == 1 && layout.ep == 1)) return;
    layout.zero = std::min(layout.zero, 2);
    layout.parameters = false;
  }
  // Not a standard distribution, so that a seed gives the same layouts with every library.
  int number(int from, int to) { return from + static_cast<int>(random_() % static_cast<std::uint32_t>(to - from + 1)); }
  bool flag() { return number(0, 1) == 1; }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("every schedule and order gives the bits of 1f1b, tied and untied, for both families, over tp and dp") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    for (const bool tied : {false, true}) {
      for (const int tp : {1, 2}) {
        for (const int dp : {1, 2}) {
          TinyRun tiny;
          tiny.family = family;
          tiny.tied = tied;
          tiny.layout = {1, tp, dp};
          const RunRecord reference = run(tiny);
          for (const Layout& layout : all_schedules_on_two_stages(tp, dp)) {
            tiny.layout = layout;
            INFO(to_string(tiny));
            CHECK((run(tiny) == reference));
          }
        }
      }
    }
  }
}

namespace {

void check_random_layouts(int count, TinyRun (RandomLayouts::*next)()) {
  const std::uint32_t seed = layout_seed();
  std::cout << "random layouts: PIPETRAIN_LAYOUT_SEED=" << seed << '\n';
  RandomLayouts layouts(seed);
  for (int i = 0; i < count; ++i) {
    const TinyRun tiny = (layouts.*next)();
    INFO("PIPETRAIN_LAYOUT_SEED=" << seed << ", layout " << i << ": " << to_string(tiny));
    CHECK((run(tiny) == run(reference_of(tiny))));
  }
}

}  // namespace

TEST_CASE("random layouts of routed experts give the bits of one stage", "[experts]") {
  check_random_layouts(20, &RandomLayouts::next_with_experts);
}

TEST_CASE("random layouts give the bits of one stage") { check_random_layouts(50, &RandomLayouts::next); }

TEST_CASE("many random layouts give the bits of one stage", "[experts][slow]") {
  check_random_layouts(150, &RandomLayouts::next);
  check_random_layouts(60, &RandomLayouts::next_with_experts);
}
