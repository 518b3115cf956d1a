// Matrix products through cuBLASLt, with everything that can be decided beforehand decided once per shape.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "ops/arguments.hpp"
#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {

// Bytes the libraries may use beside the operands; what fits is part of what the choice of an algorithm depends on.
constexpr std::size_t gemm_workspace = std::size_t{64} << 20;

// How long the list of cuBLASLt's heuristics is made; its ranks are what GemmShape's choices count.
constexpr int gemm_algorithms = 16;

// Whose dimensions are which: Product.
struct GemmOperands {
  Product product;
  Tensor a, b;                   // f32, bf16 or f16, of one type; or a in e4m3 or e5m2, b in e4m3, and the product y
  const void* addend = nullptr;  // null: nothing; out's shape and type, and possibly its memory
  Tensor out;                    // of the inputs' type or f32; bf16 or f32 where they have 8 bits
  // On the device, aligned to 16 bytes: what the numbers of a, of b are multiplied by. For 8 bits only, which need them.
  const float *a_scale = nullptr, *b_scale = nullptr;
  Fp8Scales a_scales = Fp8Scales::tensor, b_scales = Fp8Scales::tensor;  // not both of blocks, nor one of a tensor
  const void* bias = nullptr;  // [n] of out's type, added to each row before the one rounding; only where takes_bias()
};

// Whether Gemm adds a bias to the product of this shape.
bool takes_bias(const GemmShape& shape);

// Not thread-safe. The algorithm is one of the heuristics' list: the first, or the one that gemm_choice() names for this shape,
// chip and library version, which may be of another shape's list. So it is a pure function of these. fp32 products use no TF32.
class Gemm {
 public:
  // rank: of the list, for every shape, to measure it; -1 to choose as above.
  explicit Gemm(int device, int rank = -1);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // out = product of a and b, plus addend. Accumulates in fp32 (small fp32 products in fp64), rounds once. Products of e4m3 by
  // e4m3, which are forward ones, add up in the tensor cores, whose sums have fewer bits than fp32; those of gradients in e5m2
  // move the sums out of them into fp32 registers as they grow, and so do all whose scales are of tiles or blocks. workspace:
  // of gemm_workspace bytes. Throws Error(unavailable) when cuBLASLt has no algorithm.
  cublasStatus_t run(cudaStream_t stream, const GemmOperands& operands, void* workspace);

 private:
  struct Key {
    GemmShape shape;
    Fp8Scales a_scales, b_scales;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t operation) const { cublasLtMatmulDescDestroy(operation); }
    void operator()(cublasLtMatrixLayout_t matrix) const { cublasLtMatrixLayoutDestroy(matrix); }
  };
  using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
  using Matrix = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
  struct Plan {
    Operation operation;
    Matrix a, b, out;
    cublasLtMatmulAlgo_t algorithm{};
  };

  int device_, rank_;
  cublasLtHandle_t handle_ = nullptr;
  std::unordered_map<Key, Plan, Hash> plans_;

  // What a plan learns anew with each product.
  struct Vectors {
    const float *a_scale, *b_scale;
    const void* bias;
  };
  void set_vectors(const Plan& plan, const Vectors& vectors) const;
  const Plan& plan(const Key& key, const Vectors& vectors);
  Plan describe(const Key& key, const Vectors& vectors) const;  // all but the algorithm
  void choose_algorithm(const Key& key, Plan& plan) const;
  cublasLtMatmulAlgo_t listed(const Key& key, const Plan& plan, int rank) const;
  void check_takes(const Key& key, const Plan& plan) const;
};

}  // namespace pipetrain::cuda
