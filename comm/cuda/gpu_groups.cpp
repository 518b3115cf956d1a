#include "comm/cuda/gpu_groups.hpp"

#include <string>

#include "core/error.hpp"

namespace pipetrain {

void refuse_tensor_group(const Mesh& mesh, const std::vector<int>& ranks) {
  const MeshCoordinate first = mesh.at(ranks.front());
  for (const int rank : ranks) {
    if (mesh.at(rank).tp == first.tp) continue;
    throw Error(ErrorKind::unavailable, "the tensor-parallel ranks " + std::to_string(ranks.front()) + " and " +
                                            std::to_string(rank) + " are GPUs of different processes (" +
                                            std::to_string(mesh.place(ranks.front()).process) + " and " +
                                            std::to_string(mesh.place(rank).process) +
                                            "), which is not built yet: run as many processes as leave each tensor-parallel "
                                            "group in one");
  }
}

}  // namespace pipetrain
