#include "actors/training/run/job_estimate.hpp"

#include "actors/training/run/job_memory.hpp"

namespace pipetrain {

JobEstimate estimate_job(const TrainJob& of, const std::optional<PlannedProcesses>& planned) {
  TrainJob job = of;
  job.processes = nullptr;
  const ParallelLayout layout(job, nullptr, planned);
  JobEstimate estimate{layout.plan(), layout.needs(), layout.parts(), estimate_devices(layout, job), {}};
  estimate.shortage = memory_shortage(layout, job, estimate.devices);
  return estimate;
}

}  // namespace pipetrain
