#include "schedules/builders/building_block.hpp"

#include <algorithm>

#include "schedules/builders/stage_list.hpp"

namespace pipetrain::schedules {

namespace {

constexpr long period = 6;

// Returns the times of microbatch 0's passes on a stage.
std::array<long, 4> times_on(const BuildingBlock& block, int stage, int stages) {
  std::array<long, 4> times{};
  long begin = 0;  // of the pass on the stage where it starts
  for (std::size_t pass = 0; pass < 4; ++pass) {
    const int hops = pass % 2 == 0 ? stage : stages - 1 - stage;
    times[pass] = begin + block.per_stage[pass] * hops;
    begin += block.per_stage[pass] * (stages - 1) + (pass < 3 ? block.turns[pass] : 0);
  }
  return times;
}

}  // namespace

bool collides(const BuildingBlock& block, int stages) {
  for (int stage = 0; stage < stages; ++stage) {
    unsigned taken = 0;
    for (const long time : times_on(block, stage, stages)) {
      const unsigned step = 1u << (time % period);
      if ((taken & step) != 0) return true;
      taken |= step;
    }
  }
  return false;
}

std::vector<std::vector<Action>> repeat(const BuildingBlock& block, const ScheduleShape& shape) {
  static constexpr Action passes[] = {
      {ActionKind::forward, 0, 0}, {ActionKind::forward, 1, 0}, {ActionKind::input_grad, 1, 0}, {ActionKind::input_grad, 0, 0}};
  std::vector<std::vector<Action>> lists;
  std::vector<std::pair<long, Action>> timed;
  for (int stage = 0; stage < shape.stages; ++stage) {
    timed.clear();
    const auto times = times_on(block, stage, shape.stages);
    for (std::size_t pass = 0; pass < 4; ++pass)
      for (int m = 0; m < shape.microbatches; ++m)
        timed.push_back({times[pass] + period * m, {passes[pass].kind, passes[pass].chunk, m}});
    std::sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    auto& list = lists.emplace_back();
    list.reserve(timed.size());
    for (const auto& [time, action] : timed) list.push_back(action);
  }
  return lists;
}

std::vector<std::vector<Action>> zb_v_order(const ScheduleShape& shape) {
  std::vector<std::vector<Action>> order;
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
  return order;
}

}  // namespace pipetrain::schedules
