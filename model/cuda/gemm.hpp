// Matrix products through cuBLASLt, with everything that can be decided beforehand decided once per shape.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/dtype.hpp"
#include "core/tensor.hpp"

namespace pipetrain::cuda {

// Bytes the libraries may use beside the operands; what fits is part of what the choice of an algorithm depends on.
constexpr std::size_t gemm_workspace = std::size_t{64} << 20;

// The three products of a linear layer, named by their result; row-major.
enum class Product : std::uint8_t {
  y,   // [m, n] = a [m, k] b [n, k]^T
  dx,  // [m, n] = a [m, k] b [k, n]
  dw,  // [m, n] = a [k, m]^T b [k, n]
};

// Not thread-safe. The algorithm is the first of the heuristics' list, so a pure function of product, shape, types, chip and
// library version. fp32 products use no TF32.
class Gemm {
 public:
  explicit Gemm(int device);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // out = product of a and b, plus `addend` (null: nothing; out's shape and type, and possibly its memory). Inputs f32 or bf16,
  // out of their type or f32. Accumulates in fp32 (small fp32 products in fp64), rounds once. Throws Error(unavailable) when
  // cuBLASLt has no algorithm.
  cublasStatus_t run(cudaStream_t stream, Product product, const Tensor& a, const Tensor& b, const void* addend,
                     const Tensor& out, void* workspace);

 private:
  struct Key {
    std::int64_t m, n, k;
    Product product;
    DType in, out;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  int device_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<Key, Plan, Hash> plans_;

  const Plan& plan(const Key& key);
};

}  // namespace pipetrain::cuda
