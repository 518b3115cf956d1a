#include "core/process_group.hpp"

#include "core/error.hpp"

namespace pipetrain {

void Group::shift(Stream&, const Tensor&, const Tensor&) {
  throw Error(ErrorKind::unavailable,
              "tensors go round between CPU devices only: context parallelism is not built for GPUs yet");
}

}  // namespace pipetrain
