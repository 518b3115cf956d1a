#include "ops/ops.hpp"

#include "core/error.hpp"

namespace pipetrain {

namespace {

[[noreturn]] void refuse_fp8() {
  throw Error(ErrorKind::unavailable, "this device computes no products in 8 bits; use precision fp32");
}

}  // namespace

void Ops::copy_columns(const CopyColumnsArgs&) {
  throw Error(ErrorKind::unavailable, "this device copies no columns of a matrix; use slices 1");
}

void Ops::quantise(const QuantiseArgs&) { refuse_fp8(); }

void Ops::fp8_matmul(const Fp8MatmulArgs&) { refuse_fp8(); }

void Ops::fp8_matmul_scatter(const TensorParallel&, const Fp8MatmulArgs&) { refuse_fp8(); }

}  // namespace pipetrain
