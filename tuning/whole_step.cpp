#include "tuning/whole_step.hpp"

#include <utility>

#include "actors/training/rank/transformer_compute.hpp"

namespace pipetrain {

WholeStep whole_step(const LayoutRequest& request, const Layout& layout, const schedules::Plan& compute) {
  const schedules::EndOfStep end{layout.copies() > 1, layout.tp > 1, request.config.shares_table()};
  schedules::Plan plan = with_end_of_step(compute, end);
  auto needs = validate(plan, schedules::Order::planned, TransformerCompute::slot_life());
  return {std::move(plan), std::move(needs)};
}

}  // namespace pipetrain
