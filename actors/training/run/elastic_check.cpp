#include "actors/training/run/elastic_check.hpp"

#include <string>

#include "actors/ranks/run_processes.hpp"
#include "actors/training/copies/agreement.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void refuse_takeover(const std::string& why) { throw Error(ErrorKind::input, {"elastic", "takeover"}, why); }

}  // namespace

void check_elastic(const TrainJob& job) {
  if (job.elastic == Elastic::off) return;
  if (!job.processes || job.processes->control->processes() == 1)
    refuse_takeover(
        "one process runs all ranks, so no other one could take them over; start one for each device or host, for example "
        "with launch --nproc");
  const Mesh mesh = dealt_mesh(job.mesh_shape(), job.devices, job.processes.get());
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.spans_processes(ranks_with_state_of(rank, mesh, divides_states(job)))) continue;
    refuse_takeover("the state of rank " + std::to_string(rank) + " (" + to_string(mesh.at(rank)) +
                    ") would be lost with its process, because no replica in another process has it; use dp 2 or more without "
                    "zero, with each replica in processes of its own");
  }
}

}  // namespace pipetrain
