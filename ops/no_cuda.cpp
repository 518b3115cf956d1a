#include "core/error.hpp"
#include "ops/gemm_shape.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

std::unique_ptr<Ops> make_cuda_ops(Stream&, bool) {
  throw Error(ErrorKind::unavailable, "this build has no CUDA; build with the cuda preset, or use device cpu");
}

std::vector<double> time_gemm_algorithms(Stream&, const GemmShape&, bool, const Buffer&) {
  throw Error(ErrorKind::unavailable, "this build has no CUDA; build with the cuda preset");
}

std::string gemm_library_version() { return "none"; }

}  // namespace pipetrain
