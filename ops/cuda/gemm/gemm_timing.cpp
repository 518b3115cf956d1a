// Measures cuBLASLt's algorithms, for the table in gemm_choice.cpp.
#include <algorithm>
#include <memory>
#include <string>

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

}  // namespace

std::vector<double> time_gemm_algorithms(Stream& stream, const GemmShape& shape, bool residual, const Buffer& memory) {
  CudaStream& on = cuda_stream(stream);
  Device& device = stream.device();
  Arena arena(memory.data(), memory.bytes(), "a measured product");
  const Tensor one = arena.allocate({1}, DType::f32);
  const float value = 1;
  if (size_of(shape.in) == 1) stream.copy(one.data, &value, sizeof value), stream.synchronize();
  const cuda::GemmOperands operands = operands_of(shape, residual, one, arena);
  const Buffer workspace = device.allocate(cuda::gemm_workspace, "the workspace of a measured product");

  std::vector<std::unique_ptr<cuda::Gemm>> algorithms;
  const auto run = [&](cuda::Gemm& gemm) { return gemm.run(on.native(), operands, workspace.data()); };
  for (int rank = 0; rank < cuda::gemm_algorithms; ++rank) {
    auto gemm = std::make_unique<cuda::Gemm>(on.device_index(), rank);
    try {
      if (run(*gemm) != CUBLAS_STATUS_SUCCESS) break;
    } catch (const Error&) {
      break;  // the list ends
    }
    algorithms.push_back(std::move(gemm));
  }
  constexpr int rounds = 7, calls = 6;
  const auto begin = device.make_timing_event(), end = device.make_timing_event();
  std::vector<std::vector<double>> times(algorithms.size());
  for (int round = -1; round < rounds; ++round) {  // the first only warms up
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      stream.record(*begin);
      for (int call = 0; call < calls; ++call) run(*algorithms[i]);
      stream.record(*end);
      stream.synchronize();
      if (round >= 0) times[i].push_back(device.seconds_between(*begin, *end) / calls * 1e6);
    }
  }
  std::vector<double> medians;
  for (auto& own : times) {
    std::nth_element(own.begin(), own.begin() + rounds / 2, own.end());
    medians.push_back(own[rounds / 2]);
  }
  return medians;
}

std::string gemm_library_version() { return std::to_string(cublasLtGetVersion()); }

}  // namespace pipetrain
