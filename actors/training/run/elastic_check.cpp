#include "actors/training/run/elastic_check.hpp"

#include "actors/ranks/run_processes.hpp"
#include "core/error.hpp"

namespace pipetrain {

void check_elastic(const TrainJob& job) {
  if (job.elastic == Elastic::off) return;
  // One process that is left of a run may be joined by others.
  if (job.processes && (job.processes->planes || job.processes->control->processes() > 1)) return;
  throw Error(
      ErrorKind::input, {"elastic", "takeover"},
      "one process runs all ranks, so no other one could take them over; let pipetrain launch start one for each device or host");
}

}  // namespace pipetrain
