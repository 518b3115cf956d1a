#include "actors/training/braid_check.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "actors/training/parallel_layout.hpp"
#include "actors/training/train_job.hpp"
#include "core/error.hpp"
#include "schedules/braids.hpp"

namespace pipetrain {

namespace {

bool spans_processes(const Mesh& mesh, const std::vector<int>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int rank) { return mesh.place(rank).process != mesh.place(ranks.front()).process; });
}

}  // namespace

void check_braids(const TrainJob& job, const schedules::Plan& plan, int processes) {
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
  const Mesh all = mesh_of(job), mesh(all.shape(), deal_ranks(all.size(), processes));
  for (const auto& members : mesh.groups({Axis::tp}))
    if (spans_processes(mesh, members))
      refuse(
          "braids of tensor-parallel GPUs of several processes are not built yet; run a stage in one process, or use "
          "dualpipe-v");
}

}  // namespace pipetrain
