// The shape and types of a matrix product. They determine its speed, and the algorithm of a GPU library that computes it.
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
  DType in, out;      // in: the type of a, and of b, except that b is e4m3 if a is e5m2
  bool bias = false;  // for y: a vector [n] is added to each row
  bool operator==(const GemmShape&) const = default;
};

// Returns the microseconds that each algorithm of the GPU library's list takes for this product of random
// numbers, best guess first; the median of several runs, each of one algorithm under a load that lasts. One that is much slower
// than another gets the time of a first run. residual: with a matrix added, as weight gradients always have. `memory`: random
// numbers of the shape's types, as many as the product reads and writes, and 4 KiB more. Throws Error(unavailable) in a build
// without CUDA.
std::vector<double> time_gemm_algorithms(Stream& stream, const GemmShape& shape, bool residual, const Buffer& memory);
// Returns "major.minor.patch" of the GPU library that computes products.
std::string gemm_library_version();

}  // namespace pipetrain
