// The V-shaped schedules of Qi et al. 2024, "Pipeline Parallelism with Controllable Memory": the stage that embeds also holds
// the head, so that what early stages keep long, late ones keep short. Each is an order of F and I; W fills the gaps.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "schedules/builders.hpp"
#include "schedules/stage_list.hpp"
#include "schedules/weight_fill.hpp"

namespace pipetrain::schedules {

namespace {

using Lists = std::vector<std::vector<Action>>;

Plan filled(const char* name, const ScheduleShape& shape, const Lists& order, int cap, ReadyRule rule) {
  const auto placement = Placement::v_shape(shape.stages);
  const std::vector<int> caps(static_cast<std::size_t>(shape.stages), std::min(cap, 2 * shape.stages));
  auto lists = fill_weight_grads(placement, shape.microbatches, order, Costs::uniform(placement, 1, 1, 1), {caps});
  if (!lists) throw std::logic_error(std::string(name) + " cannot be built for " + std::to_string(shape.stages) + " stages");
  return {name, placement, shape.microbatches, std::move(lists->stages), rule};
}

// Where one microbatch's passes stand in time, in steps of one chunk's F = I = W: how many steps each pass takes from stage to
// stage, and how many it spends turning round. Microbatches follow each other every 6 steps (2 F, 2 I, 2 W).
struct BuildingBlock {
  std::array<int, 4> per_stage;  // F of chunk 0 (down), F of chunk 1 (up), I of chunk 1 (down), I of chunk 0 (up)
  std::array<int, 3> turns;      // between them
};

Lists repeat(const BuildingBlock& block, const ScheduleShape& shape) {
  static constexpr Action passes[] = {
      {ActionKind::forward, 0, 0}, {ActionKind::forward, 1, 0}, {ActionKind::input_grad, 1, 0}, {ActionKind::input_grad, 0, 0}};
  constexpr int period = 6;
  Lists lists;
  const int last = shape.stages - 1;
  for (int stage = 0; stage < shape.stages; ++stage) {
    std::vector<std::pair<long, Action>> timed;
    long begin = 0;  // of the pass on the stage where it starts
    for (std::size_t pass = 0; pass < 4; ++pass) {
      const int hops = pass % 2 == 0 ? stage : last - stage;
      for (int m = 0; m < shape.microbatches; ++m)
        timed.push_back(
            {begin + block.per_stage[pass] * hops + static_cast<long>(period) * m, {passes[pass].kind, passes[pass].chunk, m}});
      begin += block.per_stage[pass] * last + (pass < 3 ? block.turns[pass] : 0);
    }
    std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    auto& list = lists.emplace_back();
    for (const auto& [time, action] : timed) list.push_back(action);
  }
  return lists;
}

}  // namespace

// Holds p microbatches, like 1f1b, and never waits between its first and last action when F = I = W.
Plan build_zb_v(const ScheduleShape& shape) {
  Lists order;
  for (int stage = 0; stage < shape.stages; ++stage) {
    StageList list(2, shape.microbatches);
    for (int i = 0; i < 2 * (shape.stages - stage) - 1; ++i) list.forward(0);
    for (int i = 0; i < stage; ++i) list.forward(1), list.forward(0);
    for (int i = 0; i < shape.stages - stage; ++i) list.forward(1), list.input_grad(1);
    while (list.has_backwards_left(0) || list.has_backwards_left(1)) {
      list.forward(0), list.input_grad(0);
      list.forward(1), list.input_grad(1);
    }
    order.push_back(list.take());
  }
  return filled("zb-v", shape, order, 2 * shape.stages, ReadyRule::plan_order);
}

// Holds about p / 2 + 1 microbatches. The steps a microbatch is on its way sum to 6 a stage, so p chunks of it are under way.
// Such a tight repetition leaves no room to choose, so it has no ready rule.
// The turns are the shortest for which no two passes of a stage fall on the same step.
Plan build_v_half(const ScheduleShape& shape) {
  const bool is_even = shape.stages % 2 == 0;
  const BuildingBlock block{{1, 2, 1, 2}, is_even ? std::array{4, 1, 5} : std::array{1, 1, 2}};
  return filled("v-half", shape, repeat(block, shape), 2 * (shape.stages / 2 + 1), ReadyRule::none);
}

// Holds about p / 3 + 1 microbatches: every pass goes on at once, 4 steps a stage. No ready rule, as above.
Plan build_v_min(const ScheduleShape& shape) {
  static constexpr std::array<int, 3> turns[] = {{3, 1, 3}, {1, 1, 1}, {5, 1, 1}};
  const BuildingBlock block{{1, 1, 1, 1}, turns[shape.stages % 3]};
  return filled("v-min", shape, repeat(block, shape), 2 * ((shape.stages + 4) / 3), ReadyRule::none);
}

}  // namespace pipetrain::schedules
