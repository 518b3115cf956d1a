#include "actors/training/run/elastic_check.hpp"

#include "actors/ranks/run_processes.hpp"
#include "actors/training/copies/agreement.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Processes share the memory of copies within a host alone.
void check_hosts(const TrainJob& job) {
  const Mesh mesh = dealt_mesh(job.mesh_shape(), job.devices, job.processes.get());
  if (!shares_copies(job) || !loses_states_with_process(mesh, divides_states(job))) return;
  const ControlPlane& control = *job.processes->control;
  for (int process = 1; process < control.processes(); ++process) {
    if (control.info(process).machine == control.info(0).machine) continue;
    throw Error(ErrorKind::input, {"elastic", "takeover"},
                to_string(control.info(0)) + " and " + to_string(control.info(process)) +
                    " are on different hosts, and states that one process alone has are not passed on between hosts with GPUs "
                    "yet; give dp 2 or more with zero 0, or one host");
  }
}

}  // namespace

void check_elastic(const TrainJob& job) {
  if (job.elastic == Elastic::off) return;
  // One process that is left of a run may be joined by others.
  if (job.processes && (job.processes->planes || job.processes->control->processes() > 1)) return check_hosts(job);
  throw Error(
      ErrorKind::input, {"elastic", "takeover"},
      "one process runs all ranks, so no other one could take them over; let pipetrain launch start one for each device or host");
}

}  // namespace pipetrain
