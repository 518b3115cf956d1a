// The biases of the experts' matrices.
#include <vector>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"

namespace pipetrain::cpu {
namespace {

// Calls work(expert, first row, end of its rows) for each expert, on the stream's threads.
template <class Work>
void for_each_biased_expert(CpuStream& stream, const Tensor& offsets, const Work& work) {
  const auto* const first = offsets.as<std::int32_t>();
  stream.parallel_for(offsets.elements() - 1,
                      [&](std::int64_t expert) { work(expert, std::int64_t{first[expert]}, std::int64_t{first[expert + 1]}); });
}

float bias_weight(const Tensor& weights, std::int64_t row) { return weights.shape.rank() == 0 ? 1 : weights.as<float>()[row]; }

}  // namespace

void add_expert_bias(CpuStream& stream, const ExpertBiasArgs& args) {
  const std::int64_t cols = args.bias.elements() / (args.offsets.elements() - 1);
  for_each_biased_expert(stream, args.offsets, [&](std::int64_t expert, std::int64_t begin, std::int64_t end) {
    const Floats bias(cols), wide(cols);
    widen(args.bias.dtype, element_at(args.bias, expert * cols), cols, bias.data());
    for (std::int64_t row = begin; row < end; ++row) {
      char* const at = element_at(args.x, row * args.x.cols() + args.first_column);
      const float weight = bias_weight(args.weights, row);
      widen(args.x.dtype, at, cols, wide.data());
      for (std::int64_t i = 0; i < cols; ++i) wide.data()[i] += weight * bias.data()[i];
      narrow(args.x.dtype, wide.data(), cols, at);
    }
  });
}

// An expert's rows are added in order, in fp64.
void expert_bias_backward(CpuStream& stream, const ExpertBiasBackwardArgs& args) {
  const std::int64_t cols = args.bias.elements() / (args.offsets.elements() - 1);
  for_each_biased_expert(stream, args.offsets, [&](std::int64_t expert, std::int64_t begin, std::int64_t end) {
    const Floats bias(cols), wide(cols);
    widen(args.bias.dtype, element_at(args.bias, expert * cols), cols, bias.data());
    std::vector<double> sums(static_cast<std::size_t>(cols));
    for (std::int64_t row = begin; row < end; ++row) {
      const float weight = bias_weight(args.weights, row);
      widen(args.dy.dtype, element_at(args.dy, row * args.dy.cols() + args.first_column), cols, wide.data());
      double dot = 0;
      for (std::int64_t i = 0; i < cols; ++i) {
        const double value = wide.data()[i];
        sums[static_cast<std::size_t>(i)] += weight * value;
        dot += value * bias.data()[i];
      }
      if (args.dots.shape.rank() > 0) args.dots.as<float>()[row] = static_cast<float>(dot);
    }
    float* const out = args.dbias.as<float>() + expert * cols;
    for (std::int64_t i = 0; i < cols; ++i) out[i] += static_cast<float>(sums[static_cast<std::size_t>(i)]);
  });
}

}  // namespace pipetrain::cpu
