#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

struct Factors {
  float grad_scale, beta1, beta2, inv_correction1, inv_correction2, lr, eps, decay;  // decay = 1 - lr * weight_decay
};

// T: of the rounded copy, which may be null. A preview writes nothing but that.
template <class T, int W>
__global__ void adamw_kernel(float* weight, const float* grad, float* m, float* v, T* rounded, bool is_preview,
                             std::int64_t packs, Factors f) {
  cudaTriggerProgrammaticLaunchCompletion();  // a model's many small tensors follow each other: the next one's launch overlaps
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  const auto w = load<W>(weight, pack);
  const auto g = load<W>(grad, pack);
  const auto old_m = load<W>(m, pack);
  const auto old_v = load<W>(v, pack);
  float new_w[W], new_m[W], new_v[W];
#pragma unroll
  for (int i = 0; i < W; ++i) {
    const float gradient = g[i] * f.grad_scale;
    new_m[i] = f.beta1 * old_m[i] + (1.0F - f.beta1) * gradient;
    new_v[i] = f.beta2 * old_v[i] + (1.0F - f.beta2) * gradient * gradient;
    const float step = new_m[i] * f.inv_correction1 / (sqrtf(new_v[i] * f.inv_correction2) + f.eps);
    new_w[i] = w[i] * f.decay - f.lr * step;
  }
  if (!is_preview) {
    store(weight, pack, new_w);
    store(m, pack, new_m);
    store(v, pack, new_v);
  }
  if (rounded != nullptr) store(rounded, pack, new_w);
}

void run_adamw(cudaStream_t stream, const AdamWArgs& args, const std::optional<Tensor>& rounded, const AdamW& s,
               bool is_preview) {
  const std::int64_t count = args.weight.elements();
  if (count == 0) return;
  const auto correction = [&](double beta) { return static_cast<float>(1.0 / (1.0 - pow(beta, static_cast<double>(s.step)))); };
  const Factors factors{s.grad_scale,        s.beta1, s.beta2, correction(s.beta1),
                        correction(s.beta2), s.lr,    s.eps,   1.0F - s.lr * s.weight_decay};
  const auto run = [&](auto w, std::int64_t from, std::int64_t elements) {
    constexpr int W = decltype(w)::value;
    if (elements == 0) return;
    with_type(rounded ? rounded->dtype : DType::f32, "adamw's rounded weights", [&](auto t) {
      using T = typename decltype(t)::type;
      T* copy = rounded ? data_of<T>(*rounded) + from : nullptr;
      launch(stream, adamw_kernel<T, W>, blocks_for(elements / W, 256), 256, 0, data_of<float>(args.weight) + from,
             data_of<float>(args.grad) + from, data_of<float>(args.m) + from, data_of<float>(args.v) + from, copy, is_preview,
             elements / W, factors);
    });
  };
  const bool aligned = aligned16(args.weight.data) && aligned16(args.grad.data) && aligned16(args.m.data) &&
                       aligned16(args.v.data) && (!rounded || aligned16(rounded->data));
  const std::int64_t wide = aligned ? count / 4 * 4 : 0;
  run(Constant<4>{}, 0, wide);
  run(Constant<1>{}, wide, count - wide);
}

}  // namespace

void adamw(cudaStream_t stream, const AdamWArgs& args, const std::optional<Tensor>& rounded, const AdamW& s) {
  run_adamw(stream, args, rounded, s, false);
}

void adamw_preview(cudaStream_t stream, const AdamWArgs& args, const Tensor& result, const AdamW& s) {
  run_adamw(stream, args, result, s, true);
}

}  // namespace pipetrain::cuda
