// Matrix products through cuBLASLt, with everything that can be decided beforehand decided once per shape.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {

// Bytes the libraries may use beside the operands; what fits is part of what the choice of an algorithm depends on.
constexpr std::size_t gemm_workspace = std::size_t{64} << 20;

// How long the list of cuBLASLt's heuristics is made; its ranks are what GemmShape's choices count.
constexpr int gemm_algorithms = 16;

// Whose dimensions are which: Product.
struct GemmOperands {
  Product product;
  Tensor a, b;                   // f32, bf16 or f16, of one type
  const void* addend = nullptr;  // null: nothing; out's shape and type, and possibly its memory
  Tensor out;                    // of the inputs' type or f32
};

// Not thread-safe. The algorithm is one of the heuristics' list: the first, or the one that gemm_choice() names for this shape,
// chip and library version. So it is a pure function of these. fp32 products use no TF32.
class Gemm {
 public:
  // rank: of the list, for every shape, to measure it; -1 to choose as above.
  explicit Gemm(int device, int rank = -1);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // out = product of a and b, plus addend. Accumulates in fp32 (small fp32 products in fp64), rounds once. workspace: of
  // gemm_workspace bytes. Throws Error(unavailable) when cuBLASLt has no algorithm.
  cublasStatus_t run(cudaStream_t stream, const GemmOperands& operands, void* workspace);

 private:
  using Key = GemmShape;
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  int device_, rank_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<Key, Plan, Hash> plans_;

  const Plan& plan(const Key& key);
};

}  // namespace pipetrain::cuda
