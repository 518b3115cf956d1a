#include "actors/training/job/slice_check.hpp"

#include <string>

#include "actors/training/job/train_job.hpp"
#include "core/error.hpp"

namespace pipetrain {

void check_slices(const TrainJob& job) {
  const int slices = job.layout.slices;
  if (slices == 1) return;
  const auto refuse = [&](const std::string& why) { throw Error(ErrorKind::input, {"slices", std::to_string(slices)}, why); };
  const std::int64_t sequence = job.dataset->sequence_length();
  if (sequence < slices) refuse("a sequence of " + std::to_string(sequence) + " tokens has fewer than that; use fewer slices");
  if (job.config.classifies()) refuse("slices of samples with labels are not built yet; leave it out");
  if (job.numerics.precision.fp8_products) refuse("slices in fp8 are not built yet; use precision bf16, or leave it out");
  if (job.offload.activations) refuse("slices that leave the device are not built yet; leave activations out of offload");
  if (job.post_validation) refuse("slices do not begin before the verdict on the step before yet; use post-validation off");
  if (job.layout.order == schedules::Order::ready) refuse("slices keep the plan's order; use order planned");
}

}  // namespace pipetrain
