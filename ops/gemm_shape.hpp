// The shape and types of a matrix product: they decide its speed, and which of a GPU library's algorithms computes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/dtype.hpp"

namespace pipetrain {

// The three products of a linear layer, named by their result; row-major.
enum class Product : std::uint8_t {
  y,   // [m, n] = a [m, k] b [n, k]^T
  dx,  // [m, n] = a [m, k] b [k, n]
  dw,  // [m, n] += a [k, m]^T b [k, n]
};

struct GemmShape {
  std::int64_t m, n, k;
  Product product;
  DType in, out;      // in: of a, and of b, which is e4m3 where a is e5m2
  bool bias = false;  // of y: with a vector [n] added to each row on its way
  bool operator==(const GemmShape&) const = default;
};

// Microseconds that each algorithm of the GPU library's list takes for this product of random numbers, best guess first; the
// median of several runs, in turns. residual: with a matrix added, which weight gradients always are. `memory`: random numbers
// of the shape's types, as many as the product reads and writes, and 4 KiB more. Throws Error(unavailable) in a build without
// CUDA.
std::vector<double> time_gemm_algorithms(Stream& stream, const GemmShape& shape, bool residual, const Buffer& memory);
// "major.minor.patch" of the GPU library that computes products.
std::string gemm_library_version();

}  // namespace pipetrain
