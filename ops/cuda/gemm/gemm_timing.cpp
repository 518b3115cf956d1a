// Measures cuBLASLt's algorithms, for the table in gemm_choice.cpp.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda/cuda_stream.hpp"
#include "core/error.hpp"
#include "ops/cuda/gemm/gemm.hpp"

namespace pipetrain {
namespace {

// one: [1] f32, the scale 1.
cuda::GemmOperands operands_of(const GemmShape& shape, bool residual, const Tensor& one, Arena& arena) {
  const auto [m, n, k, product, in, out_type, bias] = shape;
  const Tensor a = arena.allocate(product == Product::dw ? Shape{k, m} : Shape{m, k}, in);
  const bool eight_bits = size_of(in) == 1;
  const Tensor b = arena.allocate(product == Product::y ? Shape{n, k} : Shape{k, n}, eight_bits ? DType::e4m3 : in);
  const Tensor out = arena.allocate({m, n}, out_type);
  // A gradient of weights is added to the sum so far, so the product reads that too.
  const bool adds = product == Product::dw || (eight_bits && out_type == DType::f32);
  cuda::GemmOperands operands{product, a, b, adds ? out.data : nullptr, out};
  if (residual && !adds) operands.addend = arena.allocate({m, n}, out_type).data;
  if (eight_bits) operands.a_scale = operands.b_scale = one.as<float>();
  if (bias) operands.bias = arena.allocate({n}, out_type).data;
  return operands;
}

// The algorithms of the list that compute one product.
class Algorithms {
 public:
  Algorithms(CudaStream& stream, const cuda::GemmOperands& operands, void* workspace)
      : stream_(stream), operands_(operands), workspace_(workspace) {
    for (int rank = 0; rank < cuda::gemm_algorithms; ++rank) {
      auto gemm = std::make_unique<cuda::Gemm>(stream.device_index(), rank);
      try {
        if (run(*gemm) != CUBLAS_STATUS_SUCCESS) break;
      } catch (const Error&) {
        break;  // the list ends
      }
      all_.push_back(std::move(gemm));
    }
  }

  std::size_t count() const { return all_.size(); }
  // Returns the mean time of a call, of `calls` in a row.
  double seconds(std::size_t algorithm, int calls) {
    stream_.record(*begin_);
    for (int call = 0; call < calls; ++call) run(*all_[algorithm]);
    stream_.record(*end_);
    stream_.synchronize();
    return stream_.device().seconds_between(*begin_, *end_) / calls;
  }

 private:
  cublasStatus_t run(cuda::Gemm& gemm) { return gemm.run(stream_.native(), operands_, workspace_); }

  CudaStream& stream_;
  const cuda::GemmOperands operands_;
  void* const workspace_;
  std::vector<std::unique_ptr<cuda::Gemm>> all_;
  const std::unique_ptr<Event> begin_ = stream_.device().make_timing_event(), end_ = stream_.device().make_timing_event();
};

}  // namespace

// A GPU at its power cap lowers its clocks until the power suffices, so a step takes as long as the energy of its products
// lasts. An algorithm that is fast in turns with others, at the clocks that all of them share, can need more energy than a
// slower one. Each therefore runs alone, for as long as clocks take to settle, before it is measured.
std::vector<double> time_gemm_algorithms(Stream& stream, const GemmShape& shape, bool residual, const Buffer& memory) {
  CudaStream& on = cuda_stream(stream);
  Arena arena(memory.data(), memory.bytes(), "a measured product");
  const Tensor one = arena.allocate({1}, DType::f32);
  const float value = 1;
  if (size_of(shape.in) == 1) stream.copy(one.data, &value, sizeof value), stream.synchronize();
  const Buffer workspace = stream.device().allocate(cuda::gemm_workspace, "the workspace of a measured product");
  Algorithms algorithms(on, operands_of(shape, residual, one, arena), workspace.data());

  const std::size_t count = algorithms.count();
  std::vector<double> cold;
  for (std::size_t i = 0; i < count; ++i) cold.push_back(algorithms.seconds(i, 3));
  constexpr int rounds = 3;
  constexpr double settling = 0.12, measuring = 0.2, hopeless = 1.1;
  std::vector<std::vector<double>> times(count);
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < count; ++turn) {
      const std::size_t i = (round % 2 == 0 ? turn : count - 1 - turn), own = (i + static_cast<std::size_t>(round)) % count;
      if (cold[own] > hopeless * *std::min_element(cold.begin(), cold.end())) continue;
      algorithms.seconds(own, static_cast<int>(settling / cold[own]) + 1);
      times[own].push_back(algorithms.seconds(own, static_cast<int>(measuring / cold[own]) + 1));
    }
  }
  std::vector<double> medians;
  for (std::size_t i = 0; i < count; ++i) {
    std::sort(times[i].begin(), times[i].end());
    medians.push_back(1e6 * (times[i].empty() ? cold[i] : times[i][times[i].size() / 2]));
  }
  return medians;
}

std::string gemm_library_version() { return std::to_string(cublasLtGetVersion()); }

}  // namespace pipetrain
