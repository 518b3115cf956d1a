#include "schedules/builders/builders.hpp"
#include "schedules/builders/stage_list.hpp"

namespace pipetrain::schedules {

// DeepSeek's DualPipeV (2025), the V-shaped half of DualPipe (DeepSeek-V3 report 2024). Forwards and whole backwards of
// opposite chunks are adjacent, so that the communication of one can hide behind the compute of the other; the backward
// is split only where a gap needs it.
Plan build_dualpipe_v(const ScheduleShape& shape) {
  const int p = shape.stages, m = shape.microbatches;
  Plan plan{"dualpipe-v", Placement::v_shape(p), m, {}, ReadyRule::plan_order};
  for (int stage = 0; stage < p; ++stage) {
    const int below = p - stage - 1;  // stages between this one and the turn
    StageList list(2, m);
    for (int i = 0; i < 2 * below; ++i) list.forward(0);
    for (int i = 0; i < stage + 1; ++i) list.forward(0), list.forward(1);
    for (int i = 0; i < below; ++i) list.input_grad(1), list.oldest_weight_grad(), list.forward(1);
    for (int i = 0; i < m - 2 * p + stage + 1; ++i) {
      list.forward(0), list.backward(1);
      list.forward(1), list.backward(0);
    }
    for (int i = 0; i < below; ++i) {
      list.backward(1);
      list.forward(1), list.backward(0);
    }
    // From the middle of the drain on, weight gradients are postponed, so that gradients reach the previous stages sooner.
    int until_split = stage + 1;  // whole backwards left
    for (int i = 0; i < stage + 1; ++i)
      for (const int chunk : {1, 0}) until_split-- > 0 ? list.backward(chunk) : list.input_grad(chunk);
    for (int i = 0; i < below; ++i) list.oldest_weight_grad(), list.input_grad(0);
    list.drain();
    plan.stages.push_back(list.take());
  }
  return plan;
}

}  // namespace pipetrain::schedules
