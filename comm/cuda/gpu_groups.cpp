#include "comm/cuda/gpu_groups.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

bool is_tensor_group(const Mesh& mesh, const std::vector<int>& ranks) {
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return mesh.at(rank).tp != mesh.at(ranks.front()).tp; });
}

void require_one_host(const ControlPlane& control, const Mesh& mesh, const std::vector<int>& ranks) {
  const ProcessInfo& first = control.info(mesh.place(ranks.front()).process);
  for (const int rank : ranks) {
    const ProcessInfo& other = control.info(mesh.place(rank).process);
    if (other.machine == first.machine) continue;
    throw Error(ErrorKind::unavailable, "the tensor-parallel ranks " + std::to_string(ranks.front()) + " and " +
                                            std::to_string(rank) + " run on different hosts, in " + to_string(first) + " and " +
                                            to_string(other) + ": a tensor-parallel group of GPUs stays on one host");
  }
}

}  // namespace pipetrain
