// Stands in for the groups of GPUs in a build without CUDA.
#include "comm/cuda_group.hpp"
#include "core/error.hpp"

namespace pipetrain {

std::vector<std::unique_ptr<Group>> make_cuda_groups(const std::vector<Device*>&, GroupUse) {
  throw Error(ErrorKind::unavailable,
              "groups of GPUs cannot be made: this build has no CUDA; configure it with -DPIPETRAIN_CUDA=ON");
}

}  // namespace pipetrain
