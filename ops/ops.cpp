#include "ops/ops.hpp"

#include "core/error.hpp"

namespace pipetrain {

void Ops::round(const Tensor&, const Tensor&) {
  throw Error(ErrorKind::unavailable, "this device computes in fp32 only; use precision fp32");
}

}  // namespace pipetrain
