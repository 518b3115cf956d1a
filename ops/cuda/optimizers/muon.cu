#include "ops/cuda/device_math.cuh"
#include "ops/cuda/optimizers/element_sums.cuh"
#include "ops/cuda/optimizers/tensor_rules.hpp"
#include "ops/newton_schulz.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int quad = 4;  // elements that a thread handles together

// The elements of a matrix that a thread reads and writes; beyond the end they are zero.
struct Quad {
  std::int64_t first, count;
  bool wide;  // all four are there, and all arrays of the kernel are aligned

  template <class T>
  __device__ void read(const T* data, float (&values)[quad]) const {
    if (wide) {
      const auto pack = load<quad>(data + first, 0);
#pragma unroll
      for (int i = 0; i < quad; ++i) values[i] = pack[i];
      return;
    }
#pragma unroll
    for (int i = 0; i < quad; ++i) values[i] = first + i < count ? to_float(data[first + i]) : 0.0F;
  }
  template <class T>
  __device__ void write(T* data, const float (&values)[quad]) const {
    if (wide) return store(data + first, 0, values);
#pragma unroll
    for (int i = 0; i < quad; ++i)
      if (first + i < count) data[first + i] = from_float<T>(values[i]);
  }
};

// Calls work(quad) for the quads of the block's range.
template <class Work>
__device__ void for_quads_of_block(std::int64_t count, bool aligned, Work work) {
  constexpr int rounds = sum_rounds / quad;
#pragma unroll
  for (int round = 0; round < rounds; ++round) {
    const std::int64_t first = blockIdx.x * sum_block + (round * element_threads + static_cast<int>(threadIdx.x)) * quad;
    if (first < count) work(Quad{first, count, aligned && first + quad <= count});
  }
}

struct MomentumRule {
  float momentum, grad_scale;
  bool nesterov;

  // Changes the momentum and returns the direction.
  __device__ float operator()(float grad, float& momentum_of_element) const {
    const float scaled = grad * grad_scale;
    momentum_of_element = fmaf(1 - momentum, scaled - momentum_of_element, momentum_of_element);
    return nesterov ? fmaf(momentum, momentum_of_element - scaled, scaled) : momentum_of_element;
  }
};

__global__ void __launch_bounds__(element_threads)
    muon_direction_kernel(std::int64_t count, bool aligned, const float* grad, float* momentum, bf16* direction,
                          MomentumRule rule, double* partial) {
  wait_for_previous();
  __shared__ double shared[element_threads];
  double own = 0;
  for_quads_of_block(count, aligned, [&](const Quad& at) {
    float g[quad], m[quad], d[quad];
    at.read(grad, g);
    at.read(momentum, m);
#pragma unroll
    for (int i = 0; i < quad; ++i) {
      d[i] = rule(g[i], m[i]);
      own += static_cast<double>(d[i]) * d[i];
    }
    at.write(momentum, m);
    at.write(direction, d);
  });
  const double sum = block_sum<element_threads>(own, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

struct KeepUnit {
  float* unit;
  __device__ void operator()(double sum) const { *unit = static_cast<float>(1 / fmax(sqrt(sum), least_direction_norm)); }
};

__global__ void __launch_bounds__(element_threads)
    scale_direction_kernel(std::int64_t count, bool aligned, bf16* direction, const float* unit) {
  wait_for_previous();
  const float factor = *unit;
  for_quads_of_block(count, aligned, [&](const Quad& at) {
    float d[quad];
    at.read(direction, d);
#pragma unroll
    for (int i = 0; i < quad; ++i) d[i] *= factor;
    at.write(direction, d);
  });
}

__global__ void __launch_bounds__(element_threads)
    muon_weights_kernel(std::int64_t count, bool aligned, float* weight, const bf16* update, float keep, float rate) {
  wait_for_previous();
  for_quads_of_block(count, aligned, [&](const Quad& at) {
    float w[quad], u[quad];
    at.read(weight, w);
    at.read(update, u);
#pragma unroll
    for (int i = 0; i < quad; ++i) w[i] = DeviceMath::weighted_sum(keep, w[i], -rate, u[i]);
    at.write(weight, w);
  });
}

}  // namespace

void muon_direction(cudaStream_t stream, const TensorUpdateArgs& args, const Muon& rule, const Tensor& direction,
                    void* scratch) {
  const std::int64_t count = args.weight.elements();
  const unsigned blocks = blocks_for(count, sum_block);
  const bool aligned = aligned16(args.grad.data) && aligned16(args.states[0].data) && aligned16(direction.data);
  auto* const unit = reinterpret_cast<float*>(numbers_of(scratch));
  double* const partial = partial_sums_of(scratch);
  launch(stream, muon_direction_kernel, blocks, element_threads, 0, count, aligned, data_of<float>(args.grad),
         data_of<float>(args.states[0]), data_of<bf16>(direction), MomentumRule{rule.momentum, rule.grad_scale, rule.nesterov},
         partial);
  launch(stream, last_sum_kernel<KeepUnit>, 1, last_sum_threads, 0, partial, blocks, KeepUnit{unit});
  launch(stream, scale_direction_kernel, blocks, element_threads, 0, count, aligned, data_of<bf16>(direction), unit);
}

void muon_weights(cudaStream_t stream, const TensorUpdateArgs& args, const Muon& rule, const Tensor& update) {
  const std::int64_t count = args.weight.elements();
  const bool aligned = aligned16(args.weight.data) && aligned16(update.data);
  launch(stream, muon_weights_kernel, blocks_for(count, sum_block), element_threads, 0, count, aligned,
         data_of<float>(args.weight), data_of<bf16>(update), 1 - rule.lr * rule.weight_decay, rule.lr * rule.update_scale);
}

}  // namespace pipetrain::cuda
