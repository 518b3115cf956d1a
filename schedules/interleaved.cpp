#include <algorithm>

#include "schedules/builders.hpp"

namespace pipetrain::schedules {

namespace {

// The order of all forwards of a stage: groups of p microbatches, each going through all chunks. A remainder that does not fill
// a group joins the last one, so that no chunk has to wait for an activation that comes round too late.
std::vector<Action> forward_order(const ScheduleShape& shape, ActionKind kind, bool chunks_reversed) {
  std::vector<Action> order;
  const int whole_groups = std::max(1, shape.microbatches / shape.stages);
  for (int group = 0; group < whole_groups; ++group) {
    const int begin = group * shape.stages;
    const int end = group + 1 == whole_groups ? shape.microbatches : begin + shape.stages;
    for (int i = 0; i < shape.chunks; ++i)
      for (int m = begin; m < end; ++m)
        order.push_back({kind, static_cast<std::int16_t>(chunks_reversed ? shape.chunks - 1 - i : i), m});
  }
  return order;
}

}  // namespace

// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM": 1F1B over v chunks.
Plan build_interleaved(const ScheduleShape& shape) {
  Plan plan{"interleaved", Placement::looping(shape.stages, shape.chunks), shape.microbatches, {}, ReadyRule::plan_order};
  const auto forwards = forward_order(shape, ActionKind::forward, false);
  const auto backwards = forward_order(shape, ActionKind::backward, true);
  // The size of the group that is under way when forward `i` runs decides how far the last chunk is away.
  const int last_group = shape.microbatches - (std::max(1, shape.microbatches / shape.stages) - 1) * shape.stages;
  const int widest = std::max(std::min(shape.stages, shape.microbatches), last_group);
  const int pace = shape.chunks == 1 ? 1 : 2;  // a single chunk needs no head start for the way round
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto warm_up =
        std::min(forwards.size(), static_cast<std::size_t>(pace * (shape.stages - stage - 1)) +
                                      static_cast<std::size_t>(shape.chunks - 1) * static_cast<std::size_t>(widest));
    std::vector<Action> actions(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
    actions.reserve(2 * forwards.size() + 8);
    for (std::size_t i = warm_up; i < forwards.size(); ++i) {
      actions.push_back(forwards[i]);
      actions.push_back(backwards[i - warm_up]);
    }
    actions.insert(actions.end(), backwards.end() - static_cast<std::ptrdiff_t>(warm_up), backwards.end());
    plan.stages.push_back(std::move(actions));
  }
  return plan;
}

}  // namespace pipetrain::schedules
