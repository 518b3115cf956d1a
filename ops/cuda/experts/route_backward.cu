// The gradient of a router's logits, and its statistics. One warp a token; the sums over tokens are added in a fixed order.
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int warps = 4;

struct RouterGradientView {
  const float *probabilities, *log_sum_exp, *dweights;
  const int *of_token, *places, *offsets;
  int tokens, experts, chosen;
  bool normalised;
  ScoreRule rule;
  const int* counts;  // [batch, E], or null without losses
  int tokens_of_sequence, layers;
  float balance_scale, z_scale;
  float* dlogits;
  double* partial;     // [blocks, 2]: each block's sums of both losses, or null
  double* statistics;  // [E + 3], or null
};

// A sequence's factors of the losses: the balancing loss's slope of an expert is `slope` times its count.
struct SequenceFactors {
  double slope = 0, length = 1;
};

__device__ SequenceFactors factors_of(const RouterGradientView& view, const int* counts, int lane) {
  std::int64_t all = 0;
  for (int e = lane; e < view.experts; e += 32) all += counts[e];
  all = warp_sum(all);
  const double tokens = static_cast<double>(all) / view.chosen;
  return {view.experts / (tokens * tokens), static_cast<double>(all) / (static_cast<double>(view.chosen) * view.layers)};
}

// Adds the gradients of the chosen experts' weights to grads [E], which the whole warp shares.
__device__ void add_weights(const RouterGradientView& view, int token, const float* probabilities, double* grads, int lane) {
  const int* const experts = view.of_token + static_cast<std::int64_t>(token) * view.chosen;
  const int* const places = view.places + static_cast<std::int64_t>(token) * view.chosen;
  const auto dweight = [&](int c) { return places[c] < 0 ? 0.0F : view.dweights[places[c]]; };
  double sum = 1, mean = 0;
  if (view.normalised) {
    sum = 0;
    for (int c = 0; c < view.chosen; ++c) sum += probabilities[experts[c]];
    for (int c = 0; c < view.chosen; ++c) mean += dweight(c) * (probabilities[experts[c]] / sum);
  }
  for (int c = lane; c < view.chosen; c += 32) grads[experts[c]] += view.rule.scale * (dweight(c) - mean) / sum;
}

// A token's shares of both losses, and the slope of its z-loss.
struct TokenLosses {
  double balance = 0, z = 0, z_slope = 0;
};

// Writes the balancing loss's gradients of the scores to grads [E]. Scores that are sigmoids are divided by their sum in the
// balancing loss (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 2.1.2).
__device__ TokenLosses find_losses(const RouterGradientView& view, int token, const float* scores, double* grads, int lane) {
  const int* const counts = view.counts + static_cast<std::int64_t>(token / view.tokens_of_sequence) * view.experts;
  const SequenceFactors factors = factors_of(view, counts, lane);
  double balance = 0, sum = 1;
  for (int e = lane; e < view.experts; e += 32) balance += factors.slope * counts[e] * scores[e];
  balance = warp_sum(balance);
  if (view.rule.sigmoid) {
    sum = 0;
    for (int e = lane; e < view.experts; e += 32) sum += scores[e];
    sum = warp_sum(sum);
  }
  const double mean = view.rule.sigmoid ? balance / sum : 0;
  for (int e = lane; e < view.experts; e += 32) grads[e] = view.balance_scale * (factors.slope * counts[e] - mean) / sum;
  const double log_sum_exp = view.log_sum_exp[token];
  return {balance / sum, log_sum_exp * log_sum_exp / factors.length, 2.0 * view.z_scale * log_sum_exp / factors.length};
}

// Writes a token's gradient: p (g - sum p g) of a softmax, where g is the gradient of p, or s (1 - s) g of sigmoids. Returns
// its shares of both losses.
__device__ double2 token_gradient(const RouterGradientView& view, int token, double* grads, int lane) {
  const float* const probabilities = view.probabilities + static_cast<std::int64_t>(token) * view.experts;
  TokenLosses losses;
  if (view.counts != nullptr) {
    losses = find_losses(view, token, probabilities, grads, lane);
  } else {
    for (int e = lane; e < view.experts; e += 32) grads[e] = 0;
  }
  __syncwarp();
  add_weights(view, token, probabilities, grads, lane);
  __syncwarp();
  float* const out = view.dlogits + static_cast<std::int64_t>(token) * view.experts;
  if (view.rule.sigmoid) {
    for (int e = lane; e < view.experts; e += 32) {
      const double score = probabilities[e];
      out[e] = static_cast<float>(score * (1 - score) * grads[e]);
    }
    return {losses.balance, losses.z};
  }
  double mean = 0;
  for (int e = lane; e < view.experts; e += 32) mean += probabilities[e] * grads[e];
  mean = warp_sum(mean);
  for (int e = lane; e < view.experts; e += 32)
    out[e] = static_cast<float>(probabilities[e] * (grads[e] - mean + losses.z_slope));
  return {losses.balance, losses.z};
}

__global__ void __launch_bounds__(32 * warps) route_backward_kernel(RouterGradientView view) {
  extern __shared__ double shared[];  // [warps, E]
  __shared__ double2 of_warps[warps];
  wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            token = static_cast<int>(blockIdx.x) * warps + warp;
  double2 losses{0, 0};
  if (token < view.tokens) losses = token_gradient(view, token, shared + warp * view.experts, lane);
  if (view.partial == nullptr) return;
  if (lane == 0) of_warps[warp] = losses;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double2 sum = of_warps[0];
  for (int other = 1; other < warps; ++other) sum.x += of_warps[other].x, sum.y += of_warps[other].y;
  view.partial[2 * blockIdx.x] = sum.x;
  view.partial[2 * blockIdx.x + 1] = sum.y;
}

constexpr int statistics_threads = 256;

// Adds the number of choices of each expert, and of those that were dropped. counts: [E] in shared memory.
__device__ void add_choices(const RouterGradientView& view, int* counts) {
  const int thread = static_cast<int>(threadIdx.x), choices = view.tokens * view.chosen, kept = view.offsets[view.experts];
  for (int e = thread; e < view.experts; e += statistics_threads)
    counts[e] = kept == choices ? view.offsets[e + 1] - view.offsets[e] : 0;
  __syncthreads();
  if (kept < choices) {
    for (int choice = thread; choice < choices; choice += statistics_threads) atomicAdd(counts + view.of_token[choice], 1);
    __syncthreads();
  }
  for (int e = thread; e < view.experts; e += statistics_threads) view.statistics[e] += counts[e];
  if (thread == 0) view.statistics[view.experts + 2] += choices - kept;
}

// One block. Each thread adds every 256th pair, and the first warp then adds the threads' sums.
__global__ void __launch_bounds__(statistics_threads) statistics_kernel(RouterGradientView view, int blocks) {
  extern __shared__ int counts[];  // [E]
  __shared__ double sums[2][statistics_threads];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x);
  add_choices(view, counts);
  if (view.counts == nullptr) return;
  double balance = 0, z = 0;
  for (int block = thread; block < blocks; block += statistics_threads)
    balance += view.partial[2 * block], z += view.partial[2 * block + 1];
  sums[0][thread] = balance, sums[1][thread] = z;
  __syncthreads();
  if (thread >= 32) return;
  for (int of = 0; of < 2; ++of) {
    double sum = 0;
    for (int i = thread; i < statistics_threads; i += 32) sum += sums[of][i];
    sum = warp_sum(sum);
    if (thread == 0) view.statistics[view.experts + of] += sum;
  }
}

}  // namespace

std::size_t route_backward_scratch(const RouteBackwardArgs& args) {
  return static_cast<std::size_t>(2 * ceil_div<std::int64_t>(args.dlogits.rows(), warps)) * sizeof(double);
}

void route_backward(cudaStream_t stream, const RouteBackwardArgs& args, void* scratch) {
  const Routing& routing = args.routing;
  const std::int64_t tokens = args.dlogits.rows();
  if (tokens == 0) return;
  const bool reports = args.statistics.data != nullptr;
  RouterGradientView view{.probabilities = data_of<float>(routing.probabilities),
                          .log_sum_exp = data_of<float>(routing.log_sum_exp),
                          .dweights = data_of<float>(args.dweights),
                          .of_token = data_of<int>(routing.experts),
                          .places = data_of<int>(routing.places),
                          .offsets = data_of<int>(routing.offsets),
                          .tokens = static_cast<int>(tokens),
                          .experts = static_cast<int>(args.dlogits.cols()),
                          .chosen = static_cast<int>(routing.experts.cols()),
                          .normalised = args.normalised,
                          .rule = args.rule,
                          .counts = nullptr,
                          .tokens_of_sequence = 1,
                          .layers = 1,
                          .balance_scale = 0,
                          .z_scale = 0,
                          .dlogits = data_of<float>(args.dlogits),
                          .partial = reports ? static_cast<double*>(scratch) : nullptr,
                          .statistics = reports ? data_of<double>(args.statistics) : nullptr};
  if (args.losses) {
    view.counts = data_of<int>(args.losses->counts);
    view.tokens_of_sequence = static_cast<int>(tokens / args.losses->counts.rows());
    view.layers = static_cast<int>(args.losses->layers);
    view.balance_scale = args.losses->balance_scale;
    view.z_scale = args.losses->z_scale;
  }
  const unsigned blocks = blocks_for(tokens, warps);
  launch(stream, route_backward_kernel, blocks, 32 * warps,
         static_cast<std::size_t>(warps * args.dlogits.cols()) * sizeof(double), view);
  if (reports)
    launch(stream, statistics_kernel, 1, statistics_threads, static_cast<std::size_t>(args.dlogits.cols()) * sizeof(int), view,
           static_cast<int>(blocks));
}

}  // namespace pipetrain::cuda
