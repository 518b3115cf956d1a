#include "schedules/plan/forward_only.hpp"

#include <algorithm>
#include <stdexcept>

namespace pipetrain::schedules {

Plan forward_only_plan(int stages, int microbatches) {
  if (microbatches < 1) throw std::invalid_argument("a plan has at least one microbatch");
  Plan plan;
  plan.schedule = "forward-only";
  plan.placement = Placement::looping(stages, 1);
  plan.microbatches = microbatches;
  std::vector<Action> list;
  for (int microbatch = 0; microbatch < microbatches; ++microbatch) list.push_back({ActionKind::forward, 0, microbatch});
  plan.stages.assign(static_cast<std::size_t>(stages), list);
  return plan;
}

std::vector<StageNeeds> forward_only_needs(const Plan& plan) {
  const int slots = std::min(plan.microbatches, 3);
  std::vector<StageNeeds> needs;
  for (int stage = 0; stage < plan.placement.stages(); ++stage) {
    const bool last = stage + 1 == plan.placement.stages();
    ChunkNeeds chunk;
    chunk.activation_slots = slots;
    chunk.target_slots = last ? slots : 0;
    chunk.peak_activations = 1;
    needs.push_back({{chunk}, 1});
  }
  return needs;
}

}  // namespace pipetrain::schedules
