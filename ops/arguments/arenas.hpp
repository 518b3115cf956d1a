// The arguments of copies, rounding and sums of tensors that may have any meaning.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"

namespace pipetrain {

struct CopyColumnsArgs {
  Tensor source;                  // [R, ...], of target's type, or one of the two is f32; must not overlap target
  std::int64_t source_begin = 0;  // the first of source's columns to copy
  Tensor target;                  // [R, ...]; columns [target_begin, target_begin + count) are written
  std::int64_t target_begin = 0, count = 0;
};

struct CopyArgs {
  Tensor source;
  Tensor target;  // equally many bytes; must not overlap source
};

struct ZeroArgs {
  Tensor tensor;
};

struct RoundArgs {
  Tensor source;  // f32
  Tensor target;  // [same length] bf16, f16 or f32, output
};

struct SquareSumArgs {
  Tensor tensor;  // f32
  Tensor sum;     // [1] f64, output
};

struct SquareSumEachArgs {
  std::span<const SquareSumArgs> sums;  // their tensors must have elements
};

struct SquareSumsArgs {
  Tensor tensor;  // f32
  Tensor sums;    // [elements / 65,536, rounded up] f64, output
};

struct AddArgs {
  Tensor target;  // f32 or f64, on CPUs also i32, +=
  Tensor source;
};

}  // namespace pipetrain
