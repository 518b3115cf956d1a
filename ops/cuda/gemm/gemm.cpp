#include "ops/cuda/gemm/gemm.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "ops/cuda/gemm/gemm_choice.hpp"
#include "ops/cuda/gemm/gemm_scales.hpp"
#include "ops/cuda/gemm/small_gemm.hpp"

namespace pipetrain::cuda {
namespace {

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    case DType::e4m3:
      return CUDA_R_8F_E4M3;
    case DType::e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

// Returns the type of b in a product whose a has this type.
DType type_of_b(DType in) { return size_of(in) == 1 ? DType::e4m3 : in; }

void check(cublasStatus_t status, const char* what, int device) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorKind::unavailable,
              "cuda:" + std::to_string(device) + ": cuBLASLt: " + what + " failed: " + cublasLtGetStatusString(status));
}

// Returns the alignment that every row of a matrix with this row length has, given that tensors and ranges of their rows are
// used. It is deduced from the shape, so that the choice of an algorithm never depends on an address.
std::uint32_t row_alignment(std::int64_t cols, DType dtype) {
  const auto bytes = static_cast<std::size_t>(cols) * size_of(dtype);
  std::uint32_t alignment = tensor_alignment;
  while (bytes % alignment != 0) alignment /= 2;
  return alignment;
}

std::int64_t a_cols_of(const GemmShape& shape) { return shape.product == Product::dw ? shape.m : shape.k; }
std::int64_t b_cols_of(const GemmShape& shape) { return shape.product == Product::y ? shape.k : shape.n; }

std::string gemm_text(const GemmShape& shape) {
  return std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " + std::to_string(shape.k) + " in " +
         to_string(shape.in);
}

// A product without an inner dimension is the addend alone.
cublasStatus_t copy_or_zero(cudaStream_t stream, const void* addend, const Tensor& out) {
  const cudaError_t error = addend == nullptr
                                ? cudaMemsetAsync(out.data, 0, out.bytes(), stream)
                                : cudaMemcpyAsync(out.data, addend, out.bytes(), cudaMemcpyDeviceToDevice, stream);
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

class Preference {
 public:
  explicit Preference(int device) { check(cublasLtMatmulPreferenceCreate(&preference_), "making a preference", device); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, T value, int device) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value), "setting a preference", device);
  }
  cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

std::size_t Gemm::Hash::operator()(const Key& key) const noexcept {
  const GemmShape& shape = key.shape;
  std::size_t hash = static_cast<std::size_t>(key.a_scales) * 4 + static_cast<std::size_t>(key.b_scales);
  hash = hash * 2 + (shape.bias ? 1 : 0);
  hash = hash * 512 + static_cast<std::size_t>(shape.product) * 64 + static_cast<std::size_t>(shape.in) * 8 +
         static_cast<std::size_t>(shape.out);
  for (const std::int64_t size : {shape.m, shape.n, shape.k})
    hash = (hash ^ static_cast<std::size_t>(size)) * 0x9E3779B97F4A7C15U;
  return hash;
}

Gemm::Gemm(int device, int rank) : device_(device), rank_(rank) { check(cublasLtCreate(&handle_), "making a handle", device); }

Gemm::~Gemm() { cublasLtDestroy(handle_); }

// The product reads these when it runs; cuBLASLt's first operand is b.
void Gemm::set_vectors(const Plan& plan, const Vectors& vectors) const {
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const void* pointer) {
    check(cublasLtMatmulDescSetAttribute(plan.operation.get(), attribute, &pointer, sizeof pointer), "setting a pointer",
          device_);
  };
  if (vectors.a_scale != nullptr) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, vectors.b_scale);
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, vectors.a_scale);
  }
  if (vectors.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vectors.bias);
}

const Gemm::Plan& Gemm::plan(const Key& key, const Vectors& vectors) {
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  Plan plan = describe(key, vectors);
  choose_algorithm(key, plan);
  return plans_.emplace(key, std::move(plan)).first->second;
}

// cuBLASLt uses column-major order: a row-major [r, c] matrix is its c x r matrix, and a row-major product x y
// its y^T x^T. So b comes first.
Gemm::Plan Gemm::describe(const Key& key, const Vectors& vectors) const {
  Plan plan;
  const GemmShape& shape = key.shape;
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "making an operation", device_);
  plan.operation.reset(operation);
  const cublasOperation_t first = shape.product == Product::y ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = shape.product == Product::dw ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "transposing", device_);
  check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second), "transposing", device_);
  if (size_of(shape.in) == 1) {
    set_scale_modes(operation, key.b_scales, key.a_scales, device_);
    const bool of_tensors = key.a_scales == Fp8Scales::tensor;
    const std::int8_t fast_sums = of_tensors && shape.in == DType::e4m3 ? 1 : 0;
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast_sums, sizeof fast_sums),
          "choosing how to add up", device_);
  }
  if (shape.bias) {  // cuBLASLt adds it to each column of its result
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t type = type_of(shape.out);
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "adding a bias",
          device_);
    check(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), "adding a bias",
          device_);
  }
  set_vectors(plan, vectors);
  const auto layout = [&](Matrix& made, DType dtype, std::int64_t rows, std::int64_t cols) {
    cublasLtMatrixLayout_t matrix = nullptr;
    check(cublasLtMatrixLayoutCreate(&matrix, type_of(dtype), static_cast<std::uint64_t>(cols),
                                     static_cast<std::uint64_t>(rows), cols),
          "making a layout", device_);
    made.reset(matrix);
  };
  layout(plan.b, type_of_b(shape.in), shape.product == Product::y ? shape.n : shape.k, b_cols_of(shape));
  layout(plan.a, shape.in, shape.product == Product::dw ? shape.k : shape.m, a_cols_of(shape));
  layout(plan.out, shape.out, shape.m, shape.n);
  return plan;
}

void Gemm::choose_algorithm(const Key& key, Plan& plan) const {
  if (rank_ >= 0 || key.a_scales != Fp8Scales::tensor) {
    plan.algorithm = listed(key, plan, std::max(rank_, 0));
    return;
  }
  const GemmChoice choice = gemm_choice(key.shape, device_);
  if (!choice.of) {
    plan.algorithm = listed(key, plan, choice.rank);
    return;
  }
  Key other = key;
  other.shape = *choice.of;
  plan.algorithm = listed(other, describe(other, {}), choice.rank);
  check_takes(key, plan);
}

void Gemm::check_takes(const Key& key, const Plan& plan) const {
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(handle_, plan.operation.get(), plan.b.get(), plan.a.get(),
                                                        plan.out.get(), plan.out.get(), &plan.algorithm, &result);
  if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= gemm_workspace) return;
  throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device_) + ": the algorithm chosen for a product of " +
                                          gemm_text(key.shape) + " does not compute it");
}

// Returns the algorithm at index `rank` of the list that the heuristics give for this product.
cublasLtMatmulAlgo_t Gemm::listed(const Key& key, const Plan& plan, int rank) const {
  const GemmShape& shape = key.shape;
  const std::uint32_t a_alignment = row_alignment(a_cols_of(shape), shape.in);
  const std::uint32_t b_alignment = row_alignment(b_cols_of(shape), type_of_b(shape.in));
  Preference preference(device_);
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, gemm_workspace, device_);
  // Allows only sums of split products that are fp32 and outside the output: sums inside it would be rounded to
  // its type on the way.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
                 device_);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b_alignment, device_);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment, device_);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, row_alignment(shape.n, shape.out), device_);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, row_alignment(shape.n, shape.out), device_);
  cublasLtMatmulHeuristicResult_t results[gemm_algorithms] = {};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan.operation.get(), plan.b.get(), plan.a.get(), plan.out.get(), plan.out.get(),
                                     preference.get(), gemm_algorithms, results, &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    throw Error(ErrorKind::unavailable,
                "cuda:" + std::to_string(device_) + ": cuBLASLt has no algorithm for a product of " + gemm_text(shape));
  }
  if (rank >= count) {
    throw Error(ErrorKind::unavailable, "cuda:" + std::to_string(device_) + ": cuBLASLt has only " + std::to_string(count) +
                                            " algorithms for a product, not number " + std::to_string(rank));
  }
  return results[rank].algo;
}

bool takes_bias(const GemmShape& shape) {
  constexpr std::int64_t multiple = 8;  // elements, of every row
  return shape.product == Product::y && size_of(shape.in) == 2 && size_of(shape.out) == 2 && shape.k > 0 &&
         shape.n % multiple == 0 && shape.k % multiple == 0;
}

cublasStatus_t Gemm::run(cudaStream_t stream, const GemmOperands& operands, void* workspace) {
  const auto& [product, a, b, addend, out, a_scale, b_scale, a_scales, b_scales, bias, product_factor, addend_factor] =
      operands;
  assert(b.dtype == type_of_b(a.dtype));
  const std::int64_t m = out.rows(), n = out.cols(), k = product == Product::dw ? a.rows() : a.cols();
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const GemmShape shape{m, n, k, product, a.dtype, out.dtype, bias != nullptr};
  assert(bias == nullptr || takes_bias(shape));
  assert(k > 0 || (product_factor == 1 && addend_factor == 1));
  if (k == 0) return copy_or_zero(stream, addend, out);
  assert(m == (product == Product::dw ? a.cols() : a.rows()) && n == (product == Product::y ? b.rows() : b.cols()));
  assert(k == (product == Product::y ? b.cols() : b.rows()));
  if (a.dtype == DType::f32 && m * n * k <= small_product) {
    small_gemm(stream, operands);
    return CUBLAS_STATUS_SUCCESS;
  }
  const Vectors vectors{a_scale, b_scale, bias};
  const Plan& plan = this->plan({shape, a_scales, b_scales}, vectors);
  set_vectors(plan, vectors);
  const float beta = addend == nullptr ? 0.0F : addend_factor;
  return cublasLtMatmul(handle_, plan.operation.get(), &product_factor, b.data, plan.b.get(), a.data, plan.a.get(), &beta,
                        addend == nullptr ? out.data : addend, plan.out.get(), out.data, plan.out.get(), &plan.algorithm,
                        workspace, gemm_workspace, stream);
}

}  // namespace pipetrain::cuda
