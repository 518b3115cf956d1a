#include "ops/update.hpp"

#include <utility>

#include "ops/cuda/device_math.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr std::size_t at_least_one(std::size_t count) { return count == 0 ? 1 : count; }

template <std::size_t count>
struct StatePointers {
  float* at[at_least_one(count)];
};

template <class Rule, int W, std::size_t... index>
__device__ float stepped(const Rule& rule, float weight, float grad, float (&states)[at_least_one(Rule::states)][W], int i,
                         std::index_sequence<index...>) {
  return rule(weight, grad, states[index][i]...);
}

// T: the type of the rounded copy, which may be null. A preview writes only that.
template <class Rule, class T, int W>
__global__ void update_kernel(float* weight, const float* grad, StatePointers<Rule::states> states, T* rounded, bool is_preview,
                              std::int64_t packs, Rule rule) {
  cudaTriggerProgrammaticLaunchCompletion();  // a model's many small tensors follow each other: the next one's launch overlaps
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  constexpr int count = static_cast<int>(Rule::states);
  const auto w = load<W>(weight, pack);
  const auto g = load<W>(grad, pack);
  float new_w[W], new_states[at_least_one(Rule::states)][W];
#pragma unroll
  for (int s = 0; s < count; ++s) {
    const auto old = load<W>(states.at[s], pack);
#pragma unroll
    for (int i = 0; i < W; ++i) new_states[s][i] = old[i];
  }
#pragma unroll
  for (int i = 0; i < W; ++i) new_w[i] = stepped(rule, w[i], g[i], new_states, i, std::make_index_sequence<Rule::states>());
  if (!is_preview) {
    store(weight, pack, new_w);
#pragma unroll
    for (int s = 0; s < count; ++s) store(states.at[s], pack, new_states[s]);
  }
  if (rounded != nullptr) store(rounded, pack, new_w);
}

template <class Rule, int W>
void run_update(cudaStream_t stream, const UpdateArgs& args, const Rule& rule, std::int64_t from, std::int64_t elements) {
  if (elements == 0) return;
  StatePointers<Rule::states> states;
  for (std::size_t i = 0; i < Rule::states; ++i) states.at[i] = data_of<float>(args.states[i]) + from;
  with_type(args.rounded ? args.rounded->dtype : DType::f32, "rounded weights", [&](auto t) {
    using T = typename decltype(t)::type;
    T* copy = args.rounded ? data_of<T>(*args.rounded) + from : nullptr;
    launch(stream, update_kernel<Rule, T, W>, blocks_for(elements / W, 256), 256, 0, data_of<float>(args.weight) + from,
           data_of<float>(args.grad) + from, states, copy, args.preview, elements / W, rule);
  });
}

}  // namespace

void update(cudaStream_t stream, const UpdateArgs& args) {
  const std::int64_t count = args.weight.elements();
  if (count == 0) return;
  std::visit(
      [&](const auto& settings) {
        const auto rule = rule_of<DeviceMath>(settings);
        using Rule = std::decay_t<decltype(rule)>;
        bool aligned =
            aligned16(args.weight.data) && aligned16(args.grad.data) && (!args.rounded || aligned16(args.rounded->data));
        for (std::size_t i = 0; i < Rule::states; ++i) aligned = aligned && aligned16(args.states[i].data);
        const std::int64_t wide = aligned ? count / 4 * 4 : 0;
        run_update<Rule, 4>(stream, args, rule, 0, wide);
        run_update<Rule, 1>(stream, args, rule, wide, count - wide);
      },
      args.rule);
}

}  // namespace pipetrain::cuda
