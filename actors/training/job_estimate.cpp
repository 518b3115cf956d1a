#include "actors/training/job_estimate.hpp"

#include "actors/training/job_memory.hpp"
#include "actors/training/parallel_layout.hpp"

namespace pipetrain {

JobEstimate estimate_job(const TrainJob& of) {
  TrainJob job = of;
  job.processes = nullptr;
  const ParallelLayout layout(job);
  JobEstimate estimate{layout.plan(), layout.needs(), layout.parts(), estimate_devices(layout, job), {}};
  estimate.shortage = memory_shortage(layout, job, estimate.devices);
  return estimate;
}

}  // namespace pipetrain
