#include "model/precision.hpp"

#include "core/error.hpp"

namespace pipetrain {

void check_precision(const Precision& precision) {
  if (precision == Precision::fp32() || precision == Precision::bf16() || precision == Precision::fp16()) return;
  throw Error(ErrorKind::unavailable, "this mixture of number types is not built; use fp32, bf16 or fp16");
}

}  // namespace pipetrain
