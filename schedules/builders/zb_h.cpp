#include "schedules/builders/builders.hpp"
#include "schedules/builders/stage_list.hpp"

namespace pipetrain::schedules {

namespace {

// Both handcrafted schedules of Qi et al. 2023, "Zero Bubble Pipeline Parallelism": stage s starts with lead x (p - s - 1)
// forwards, then repeats F and I, and also W once it has postponed lead x s weight gradients. Postponing them lets the I of
// earlier stages run sooner and leaves W to fill the end. Every stage then holds lead x (p - 1) + 1 microbatches.
Plan build_zb_h(const char* name, const ScheduleShape& shape, int lead) {
  Plan plan{name, Placement::looping(shape.stages, 1), shape.microbatches, {}, ReadyRule::plan_order};
  for (int stage = 0; stage < shape.stages; ++stage) {
    StageList list(1, shape.microbatches);
    for (int i = 0; i < lead * (shape.stages - stage - 1); ++i) list.forward(0);
    for (int m = 0; m < shape.microbatches; ++m) {
      list.forward(0);
      list.input_grad(0);
      if (m >= lead * stage) list.weight_grad(0);
    }
    while (list.weight_grad(0)) {
    }
    plan.stages.push_back(list.take());
  }
  return plan;
}

}  // namespace

Plan build_zb_h1(const ScheduleShape& shape) { return build_zb_h("zb-h1", shape, 1); }
Plan build_zb_h2(const ScheduleShape& shape) { return build_zb_h("zb-h2", shape, 2); }

}  // namespace pipetrain::schedules
