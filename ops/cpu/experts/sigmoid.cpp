#include <cmath>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void sigmoid(CpuStream& stream, const SigmoidArgs& args) {
  for_elements(stream, args.y.elements(), [&](std::int64_t begin, std::int64_t end) {
    const float* const x = args.x.as<float>();
    float* const y = args.y.as<float>();
    for (std::int64_t i = begin; i < end; ++i) y[i] = 1.0F / (1.0F + std::exp(-x[i]));
  });
}

void sigmoid_backward(CpuStream& stream, const SigmoidBackwardArgs& args) {
  for_elements(stream, args.dx.elements(), [&](std::int64_t begin, std::int64_t end) {
    const float *const dy = args.dy.as<float>(), *const y = args.y.as<float>();
    float* const dx = args.dx.as<float>();
    for (std::int64_t i = begin; i < end; ++i) dx[i] = dy[i] * y[i] * (1.0F - y[i]);
  });
}

}  // namespace pipetrain::cpu
