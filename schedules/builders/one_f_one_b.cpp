#include <algorithm>

#include "schedules/builders/builders.hpp"

namespace pipetrain::schedules {

// Harlap et al. 2018, "PipeDream", with the flush of Narayanan et al. 2021 (the schedule that Megatron calls 1F1B): stage s
// starts with p - s - 1 forwards, then alternates, then drains. With n slices a microbatch (Sun et al. 2024, "Seq1F1B"; Li et
// al. 2025, "SlimPipe") it starts with n - 1 more, because the first backward is that of a microbatch's last slice.
Plan build_1f1b(const ScheduleShape& shape) {
  const int stages = shape.stages, microbatches = shape.microbatches * shape.slices;
  const ReadyRule rule = shape.slices > 1 ? ReadyRule::none : ReadyRule::backward_first;
  Plan plan{"1f1b", Placement::looping(stages, 1), microbatches, {}, rule, {}, shape.slices};
  const auto backward = [&](int place) { return Action{ActionKind::backward, 0, backward_place(place, shape.slices)}; };
  for (int stage = 0; stage < stages; ++stage) {
    const int warm_up = std::min(shape.slices - 1 + stages - stage - 1, microbatches);
    std::vector<Action> actions;
    actions.reserve(2 * static_cast<std::size_t>(microbatches) + 8);  // and the end of step
    for (int m = 0; m < warm_up; ++m) actions.push_back({ActionKind::forward, 0, m});
    for (int m = warm_up; m < microbatches; ++m) {
      actions.push_back({ActionKind::forward, 0, m});
      actions.push_back(backward(m - warm_up));
    }
    for (int m = microbatches - warm_up; m < microbatches; ++m) actions.push_back(backward(m));
    plan.stages.push_back(std::move(actions));
  }
  return plan;
}

}  // namespace pipetrain::schedules
