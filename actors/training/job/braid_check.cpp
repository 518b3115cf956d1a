#include "actors/training/job/braid_check.hpp"

#include <string>

#include "actors/training/job/train_job.hpp"
#include "core/error.hpp"
#include "core/mesh.hpp"
#include "schedules/plan/braids.hpp"

namespace pipetrain {

void check_braids(const TrainJob& job, const schedules::Plan& plan, const Mesh& ranks) {
  if (job.layout.tp == 1 || !has_braids(plan)) return;
  const auto refuse = [&](const std::string& why) { throw Error(ErrorKind::input, {"schedule", plan.schedule}, why); };
  if (job.zero.divides_weights())
    refuse("replicas gather weights one action at a time, and a braid runs two in turns; use zero 2, or dualpipe-v");
  if (job.offload.parameters)
    refuse("weights are fetched for one action at a time, and a braid runs two in turns; use dualpipe-v");
  if (job.devices.kind == DeviceKind::cpu) return;
  if (job.numerics.precision.fp8_products)
    refuse("braids of tensor-parallel ranks in fp8 are not built for GPUs yet; use bf16, or dualpipe-v");
  if (job.layout.cp > 1) refuse("braids of ranks that share sequences are not built for GPUs yet; use cp 1, or dualpipe-v");
  for (const auto& members : ranks.groups({Axis::tp}))
    if (ranks.spans_processes(members))
      refuse(
          "braids of tensor-parallel GPUs of several processes are not built yet; run a stage in one process, or use "
          "dualpipe-v");
}

}  // namespace pipetrain
