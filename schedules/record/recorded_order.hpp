// The order in which the stages of a recorded run launched their actions, step by step, for a run that repeats it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain::schedules {

struct RecordedOrder {
  Plan plan;
  Order order = Order::planned;  // how the stages chose
  int replicas = 1;
  std::map<std::int64_t, std::vector<std::vector<Action>>> steps;  // of training steps: [replica x stages + stage]
  std::uint64_t content = 0;                                       // equal for equal orders

  // Returns null if the step was not recorded.
  const std::vector<Action>* list(std::int64_t step, int replica, int stage) const {
    const auto found = steps.find(step);
    if (found == steps.end()) return nullptr;
    return &found->second[static_cast<std::size_t>(replica * plan.placement.stages() + stage)];
  }
};

}  // namespace pipetrain::schedules
