#include "model/config/precision.hpp"

#include "core/error.hpp"

namespace pipetrain {

void check_precision(const Precision& precision) {
  for (const Precision& built :
       {Precision::fp32(), Precision::bf16(), Precision::fp16(), Precision::fp8(), Precision::fp8_of_blocks()})
    if (precision == built) return;
  throw Error(ErrorKind::unavailable, "this mixture of number types is not built; use fp32, bf16, fp16 or fp8");
}

}  // namespace pipetrain
