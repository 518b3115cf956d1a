#include <algorithm>
#include <iterator>

#include "schedules/builders/builders.hpp"
#include "schedules/plan/braids.hpp"

namespace pipetrain::schedules {

namespace {

// Returns where dualpipe-v's steady state has a forward and a whole backward of the other chunk side by side: as long
// as forwards of chunk 0 are left. While the pipeline fills and drains, other stages wait for what a stage computes,
// and a braid would delay both actions.
std::vector<std::int32_t> steady_pairs(const std::vector<Action>& list) {
  const auto is_first_forward = [](const Action& action) { return action.kind == ActionKind::forward && action.chunk == 0; };
  const auto last = std::find_if(list.rbegin(), list.rend(), is_first_forward);
  const std::ptrdiff_t end = std::min(std::distance(last, list.rend()) + 2, std::ssize(list) - 1);
  std::vector<std::int32_t> places;
  for (std::ptrdiff_t place = 0; place < end; ++place) {
    const Action &first = list[static_cast<std::size_t>(place)], &second = list[static_cast<std::size_t>(place + 1)];
    if (is_braid(first, second) && second.kind == ActionKind::backward && first.chunk != second.chunk)
      places.push_back(static_cast<std::int32_t>(place));
  }
  return places;
}

}  // namespace

// The braids of STP (Qi et al. 2025, "Synergistic Tensor and Pipeline Parallelism") in the order of DeepSeek's
// DualPipeV. STP braids actions of one chunk, for which it keeps 3 p / 2 microbatches; DualPipeV's pairs are of
// opposite chunks, move along the stages together, and need p + 1/2.
Plan build_braided_v(const ScheduleShape& shape) {
  Plan plan = build_dualpipe_v(shape);
  plan.schedule = "braided-v";
  plan.ready_rule = ReadyRule::none;
  for (const auto& list : plan.stages) plan.braids.push_back(steady_pairs(list));
  if (!has_braids(plan)) plan.braids.clear();  // with few microbatches there is no steady state
  return plan;
}

}  // namespace pipetrain::schedules
