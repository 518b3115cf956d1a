// The V-shaped schedules of Qi et al. 2024, "Pipeline Parallelism with Controllable Memory": the stage with the
// embedding also has the head, so early stages keep the first chunk's activations long and the second's for a short
// time. Each is an order of F and I; W fills the gaps.
#include <algorithm>
#include <stdexcept>

#include "schedules/builders/builders.hpp"
#include "schedules/builders/building_block.hpp"
#include "schedules/builders/weight_fill.hpp"

namespace pipetrain::schedules {

namespace {

Plan filled(const char* name, const ScheduleShape& shape, const std::vector<std::vector<Action>>& order, int cap,
            ReadyRule rule) {
  const auto placement = Placement::v_shape(shape.stages);
  const std::vector<int> caps(static_cast<std::size_t>(shape.stages), std::min(cap, 2 * shape.stages));
  auto lists = fill_weight_grads(placement, shape.microbatches, order, Costs::uniform(placement, 1, 1, 1), {caps, 1});
  if (!lists) throw std::logic_error(std::string(name) + " cannot be built for " + std::to_string(shape.stages) + " stages");
  return {name, placement, shape.microbatches, std::move(lists->stages), rule};
}

}  // namespace

// Holds p microbatches, like 1f1b, and never waits between its first and last action when F = I = W.
Plan build_zb_v(const ScheduleShape& shape) {
  return filled("zb-v", shape, zb_v_order(shape), 2 * shape.stages, ReadyRule::plan_order);
}

// Holds about p / 2 + 1 microbatches: the steps of a microbatch's passes sum to 6 a stage, so about p chunks are under
// way. The turns are the best of those for which no two passes of a stage need the same step. Such a tight repetition
// leaves no choice, so it has no ready rule.
Plan build_v_half(const ScheduleShape& shape) {
  const bool is_even = shape.stages % 2 == 0;
  const BuildingBlock block{{1, 2, 1, 2}, is_even ? std::array{4, 1, 5} : std::array{1, 1, 2}};
  return filled("v-half", shape, repeat(block, shape), 2 * (shape.stages / 2 + 1), ReadyRule::none);
}

// Holds about p / 3 + 1 microbatches: every pass continues at once, 4 steps a stage. No ready rule, as above.
Plan build_v_min(const ScheduleShape& shape) {
  static constexpr std::array<int, 3> turns[] = {{3, 1, 3}, {1, 1, 1}, {5, 1, 1}};
  const BuildingBlock block{{1, 1, 1, 1}, turns[shape.stages % 3]};
  return filled("v-min", shape, repeat(block, shape), 2 * ((shape.stages + 4) / 3), ReadyRule::none);
}

}  // namespace pipetrain::schedules
