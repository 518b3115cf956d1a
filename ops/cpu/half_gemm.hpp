// One matrix product of 16-bit operands on the calling thread.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"

namespace pipetrain::cpu {

// Like Matrix (ops/cpu/sgemm.hpp), in bf16 or f16.
struct HalfMatrix {
  const std::uint16_t* data = nullptr;
  std::int64_t stride = 0;  // between stored rows
  bool transposed = false;

  // Returns the address of an element of the matrix after transposing.
  const std::uint16_t* at(std::int64_t row, std::int64_t col) const {
    return transposed ? data + col * stride + row : data + row * stride + col;
  }
};

// c [m, n] = a [m, k] b [k, n], plus c if it accumulates, summed in fp32 and rounded once.
struct HalfProduct {
  std::int64_t m = 0, n = 0, k = 0;
  HalfMatrix a, b;
  DType type = DType::bf16;  // of a and b
  void* c = nullptr;
  DType c_type = DType::f32;  // f32, or the type of a and b
  std::int64_t c_stride = 0;  // between rows
  bool accumulate = false;
};

// Multiplies with onednn_gemm() if oneDNN multiplies this type on this processor, else with widened_gemm().
// Thread-safe; equal shapes and strides give equal bits on any thread. Throws Error(out_of_memory).
void half_gemm(const HalfProduct& product);

// Multiplies by oneDNN. Call it only if multiplies(type).
void onednn_gemm(const HalfProduct& product);
// Multiplies in fp32, after widening both operands.
void widened_gemm(const HalfProduct& product);

}  // namespace pipetrain::cpu
