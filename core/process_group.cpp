#include "core/process_group.hpp"

#include "core/error.hpp"

namespace pipetrain {

void Group::shift(Stream&, const Tensor&, const Tensor&) {
  throw Error(ErrorKind::unavailable,
              "tensors do not go round between GPUs over NCCL: the ranks of a sequence belong in one process");
}

}  // namespace pipetrain
