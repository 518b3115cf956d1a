#include "actors/training/braid_check.hpp"

#include <string>

#include "actors/training/train_job.hpp"
#include "core/error.hpp"
#include "schedules/braids.hpp"

namespace pipetrain {

void check_braids(const TrainJob& job, const schedules::Plan& plan) {
  if (job.layout.tp == 1 || !has_braids(plan)) return;
  const auto refuse = [&](const std::string& why) { throw Error(ErrorKind::input, {"schedule", plan.schedule}, why); };
  if (job.devices.kind != DeviceKind::cpu)
    refuse("braids of tensor-parallel ranks are not built for GPUs yet; use dualpipe-v, the same order without braids");
  if (job.zero.divides_weights())
    refuse("replicas gather weights one action at a time, and a braid runs two in turns; use zero 2, or dualpipe-v");
  if (job.offload.parameters)
    refuse("weights are fetched for one action at a time, and a braid runs two in turns; use dualpipe-v");
}

}  // namespace pipetrain
