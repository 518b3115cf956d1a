#include "core/error.hpp"
#include "model/ops.hpp"

namespace pipetrain {

std::unique_ptr<Ops> make_cuda_ops(Stream&, bool) {
  throw Error(ErrorKind::unavailable, "this build has no CUDA; build with the cuda preset, or use --device cpu");
}

}  // namespace pipetrain
