#include <algorithm>

#include "schedules/builders/builders.hpp"

namespace pipetrain::schedules {

namespace {

// Microbatches go through all chunks in groups of at least p: in a smaller group a chunk would wait for an activation
// that has not come round yet. Where p does not divide the microbatches, groups are longer and as even as possible,
// because the longest determines the memory.
int groups_of(const ScheduleShape& shape) { return std::max(1, shape.microbatches * shape.slices / shape.stages); }

std::vector<Action> order_of(const ScheduleShape& shape, ActionKind kind, bool are_chunks_reversed) {
  std::vector<Action> order;
  const int pieces = shape.microbatches * shape.slices, groups = groups_of(shape), longer = pieces % groups;
  for (int group = 0, begin = 0; group < groups; ++group) {
    const int end = begin + pieces / groups + (group < longer ? 1 : 0);
    for (int i = 0; i < shape.chunks; ++i)
      for (int m = begin; m < end; ++m)
        order.push_back({kind, static_cast<std::int16_t>(are_chunks_reversed ? shape.chunks - 1 - i : i),
                         are_chunks_reversed ? backward_place(m, shape.slices) : m});
    begin = end;
  }
  return order;
}

// Returns how many forwards must precede the first pair of a forward and a backward, so that no backward comes before
// its forward on the last stage.
std::size_t head_start(const ScheduleShape& shape, const std::vector<Action>& forwards, const std::vector<Action>& backwards) {
  const auto index = [&](const Action& action) {
    return static_cast<std::size_t>(action.microbatch) * static_cast<std::size_t>(shape.chunks) +
           static_cast<std::size_t>(action.chunk);
  };
  std::vector<std::size_t> place(forwards.size());
  for (std::size_t i = 0; i < forwards.size(); ++i) place[index(forwards[i])] = i;
  std::size_t most = 0;
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    const std::size_t forward = place[index(backwards[i])];
    if (forward > i) most = std::max(most, forward - i);
  }
  return most;
}

}  // namespace

// Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM": 1F1B over v chunks.
Plan build_interleaved(const ScheduleShape& shape) {
  const ReadyRule rule = shape.slices > 1 ? ReadyRule::none : ReadyRule::plan_order;
  const Placement placement = Placement::looping(shape.stages, shape.chunks);
  Plan plan{"interleaved", placement, shape.microbatches * shape.slices, {}, rule, {}, shape.slices};
  const auto forwards = order_of(shape, ActionKind::forward, false);
  const auto backwards = order_of(shape, ActionKind::backward, true);
  const std::size_t ahead = head_start(shape, forwards, backwards);
  const int pace = shape.chunks == 1 ? 1 : 2;  // a single chunk needs no head start for the way round
  for (int stage = 0; stage < shape.stages; ++stage) {
    const auto warm_up = std::min(forwards.size(), static_cast<std::size_t>(pace * (shape.stages - stage - 1)) + ahead);
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
