#include "actors/training/job/post_validation.hpp"

#include <algorithm>
#include <string>

#include "actors/training/job/train_job.hpp"
#include "core/error.hpp"
#include "core/mesh.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain {

using schedules::ActionKind;

namespace {

[[noreturn]] void refuse_post_validation(const std::string& what) {
  throw Error(ErrorKind::input, {"post-validation", "on"}, what);
}

}  // namespace

void check_post_validation(const TrainJob& job) {
  if (!job.post_validation) return;
  if (job.layout.order != schedules::Order::planned)
    refuse_post_validation("needs the planned order, in which it is known what the coming step begins with; leave out order");
  if (job.layout.replayed || job.recorder)
    refuse_post_validation("has no records: they hold one step at a time; leave out record and replay, or turn it off");
  if (job.zero.stage > 0)
    refuse_post_validation(
        "keeps the weights that forwards read whole on every replica, which zero 1 to 3 divide or publish behind the verdict; "
        "use zero 0, or turn it off");
  if (job.offload.any())
    refuse_post_validation(
        "rewrites the weights that forwards read on the device, and offload moves states between steps; leave out one of them");
  if (job.numerics.precision.fp8_products)
    refuse_post_validation("is not built for fp8, whose weights are quantised once a step; use bf16, or turn it off");
  if (job.layout.plan && !job.layout.plan->custom.empty())
    refuse_post_validation("is not built for plans with custom actions; turn it off");
}

void check_post_validation(const TrainJob& job, const Mesh& stages) {
  if (job.post_validation && stages.shape().part > 1)
    refuse_post_validation(
        "needs all tensor-parallel ranks of a stage in one process, because they must begin early together; give each process "
        "whole stages, or turn it off");
}

std::vector<bool> stages_that_wait(const schedules::Plan& plan, const std::vector<schedules::StageNeeds>& needs) {
  const std::vector<double> one(plan.stages.size(), 1);
  const auto timeline = schedules::simulate(plan, schedules::Costs::per_stage(plan.placement, one, one, one), needs);
  std::vector<double> ends;
  for (const auto& spans : timeline.stages)
    for (const schedules::Span& span : spans)
      if (span.action.kind == ActionKind::norm) ends.push_back(span.end);
  const double last = *std::max_element(ends.begin(), ends.end());
  std::vector<bool> waits;
  for (const double end : ends) waits.push_back(last - end >= 0.5);
  return waits;
}

}  // namespace pipetrain
