// Matrix products through cuBLASLt. Everything that can be decided in advance is decided once for each shape.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "core/dtype.hpp"
#include "core/tensor.hpp"
#include "ops/fp8_matrix.hpp"
#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda {

// The bytes that the libraries may use besides the operands; they are an input to the choice of an algorithm.
constexpr std::size_t gemm_workspace = std::size_t{64} << 20;

// The length of the list that cuBLASLt's heuristics return; GemmShape's choices are ranks in it.
constexpr int gemm_algorithms = 16;

// Product says which dimension of the operands is which.
struct GemmOperands {
  Product product;
  Tensor a, b;                   // f32, bf16 or f16, of one type; or a in e4m3 or e5m2, b in e4m3, and the product y
  const void* addend = nullptr;  // null: nothing; out's shape and type, and possibly its memory
  Tensor out;                    // of the inputs' type or f32; bf16 or f32 where they have 8 bits
  // Factors on the device, aligned to 16 bytes, by which the numbers of a and of b are multiplied. Required for
  // 8 bits, and only there.
  const float *a_scale = nullptr, *b_scale = nullptr;
  Fp8Scales a_scales = Fp8Scales::tensor, b_scales = Fp8Scales::tensor;  // not both of blocks, nor one of a tensor
  const void* bias = nullptr;  // [n] of out's type, added to each row before the one rounding; only where takes_bias()
  float factor = 1;            // multiplies the product before all else is added
};

// Returns true if Gemm adds a bias to the product of this shape.
bool takes_bias(const GemmShape& shape);

// Not thread-safe. The algorithm comes from the heuristics' list: the first, or the one that gemm_choice()
// names for this shape, chip and library version, possibly from another shape's list. So it is a pure function
// of these. fp32 products use no TF32.
class Gemm {
 public:
  // rank: uses this algorithm of the list for every shape, to measure it; -1 chooses as above.
  explicit Gemm(int device, int rank = -1);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // out = product of a and b, plus addend. Accumulates in fp32 (small fp32 products in fp64), rounds once. Forward products,
  // e4m3 by e4m3, add up in the tensor cores, whose sums have fewer bits than fp32. Products of gradients in e5m2, and all
  // products with scales of tiles or blocks, move the sums from there into fp32 registers as they grow. workspace:
  // gemm_workspace bytes. Throws Error(unavailable) if cuBLASLt has no algorithm.
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

  // The pointers of a plan that are set anew for each product.
  struct Vectors {
    const float *a_scale, *b_scale;
    const void* bias;
  };
  void set_vectors(const Plan& plan, const Vectors& vectors) const;
  const Plan& plan(const Key& key, const Vectors& vectors);
  Plan describe(const Key& key, const Vectors& vectors) const;  // everything except the algorithm
  void choose_algorithm(const Key& key, Plan& plan) const;
  cublasLtMatmulAlgo_t listed(const Key& key, const Plan& plan, int rank) const;
  void check_takes(const Key& key, const Plan& plan) const;
};

}  // namespace pipetrain::cuda
