#include <algorithm>

#include "schedules/builders.hpp"

namespace pipetrain::schedules {

namespace {

// Microbatches go through all chunks in groups of at least p: in a smaller group a chunk would wait for an activation that has
// not come round yet. Where p does not divide the microbatches, groups are longer, as evenly as possible, because the longest
// decides the memory.
int groups_of(const ScheduleShape& shape) { return std::max(1, shape.microbatches / shape.stages); }

std::vector<Action> order_of(const ScheduleShape& shape, ActionKind kind, bool are_chunks_reversed) {
  std::vector<Action> order;
  const int groups = groups_of(shape), longer = shape.microbatches % groups;
  for (int group = 0, begin = 0; group < groups; ++group) {
    const int end = begin + shape.microbatches / groups + (group < longer ? 1 : 0);
    for (int i = 0; i < shape.chunks; ++i)
      for (int m = begin; m < end; ++m)
        order.push_back({kind, static_cast<std::int16_t>(are_chunks_reversed ? shape.chunks - 1 - i : i), m});
    begin = end;
  }
  return order;
}

}  // namespace

// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM": 1F1B over v chunks.
Plan build_interleaved(const ScheduleShape& shape) {
  Plan plan{"interleaved", Placement::looping(shape.stages, shape.chunks), shape.microbatches, {}, ReadyRule::plan_order};
  const auto forwards = order_of(shape, ActionKind::forward, false);
  const auto backwards = order_of(shape, ActionKind::backward, true);
  const int longest_group = (shape.microbatches + groups_of(shape) - 1) / groups_of(shape);
  const int pace = shape.chunks == 1 ? 1 : 2;  // a single chunk needs no head start for the way round
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto warm_up =
        std::min(forwards.size(), static_cast<std::size_t>(pace * (shape.stages - stage - 1)) +
                                      static_cast<std::size_t>(shape.chunks - 1) * static_cast<std::size_t>(longest_group));
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
