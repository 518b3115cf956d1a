// The router's choice of experts and the order of the rows, in two launches; one more drops what exceeds a capacity.
#include <algorithm>

#include "core/error.hpp"
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/experts/route_scores.cuh"
#include "ops/cuda/experts/row_order.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = order_threads;

__device__ void softmax_of_token(const RouterView& view, int token, int lane) {
  const float* const logits = view.logits + static_cast<std::int64_t>(token) * view.experts;
  float most = -INFINITY;
  for (int e = lane; e < view.experts; e += 32) most = max(most, logits[e]);
#pragma unroll
  for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0U, most, step));
  const double largest = most;
  double sum = 0;
  for (int e = lane; e < view.experts; e += 32) sum += exp(logits[e] - largest);
  sum = warp_sum(sum);
  float* const out = view.probabilities + static_cast<std::int64_t>(token) * view.experts;
  for (int e = lane; e < view.experts; e += 32) out[e] = static_cast<float>(exp(logits[e] - largest) / sum);
  if (view.rule.sigmoid)
    for (int e = lane; e < view.experts; e += 32) out[e] = static_cast<float>(1 / (1 + exp(-static_cast<double>(logits[e]))));
  if (lane == 0) view.log_sum_exp[token] = static_cast<float>(largest + log(sum));
}

// The tokens of one block: [first, first + count).
struct BlockTokens {
  int first, count;

  __device__ explicit BlockTokens(const RouterView& view) {
    const int per_range = (view.range + block_tokens - 1) / block_tokens, block = static_cast<int>(blockIdx.x);
    const int begin = block % per_range * block_tokens;
    first = block / per_range * view.range + begin;
    count = min(block_tokens, view.range - begin);
  }
};

// Returns the lane's marks of the experts with the largest scores: bit i is expert 32 i + lane. The lane has written the
// probabilities of its experts itself.
__device__ unsigned choose_for_token(const RouterView& view, int token, int lane) {
  const Scores scores(view, token);
  const unsigned groups = choose_groups(view, scores, lane);
  const int of_group = view.experts / static_cast<int>(view.rule.groups);
  unsigned marks = 0;
  for (int c = 0; c < view.chosen; ++c) {
    float best = -INFINITY;
    int expert = -1;
    for (int e = lane, i = 0; e < view.experts; e += 32, ++i) {
      const float score = (groups >> e / of_group & 1U) != 0 ? scores.of(e) : -INFINITY;
      if ((marks >> i & 1U) == 0 && (expert < 0 || score > best)) best = score, expert = e;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(~0U, best, step);
      const int at = __shfl_xor_sync(~0U, expert, step);
      if (at >= 0 && (expert < 0 || other > best || (other == best && at < expert))) best = other, expert = at;
    }
    if (expert % 32 == lane) marks |= 1U << expert / 32;
  }
  return marks;
}

// One warp a token.
__global__ void __launch_bounds__(threads) choose_kernel(RouterView view) {
  extern __shared__ unsigned words[];  // [E]
  wait_for_previous();
  for (int e = static_cast<int>(threadIdx.x); e < view.experts; e += threads) words[e] = 0;
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32, own = static_cast<int>(threadIdx.x) / 32;
  const BlockTokens tokens(view);
  if (own < tokens.count) {
    const int token = tokens.first + own;
    softmax_of_token(view, token, lane);
    const unsigned marks = choose_for_token(view, token, lane);
    int* to = view.of_token + static_cast<std::int64_t>(token) * view.chosen;
    for (int first = 0, i = 0; first < view.experts; first += 32, ++i) {
      const bool marked = (marks >> i & 1U) != 0;
      const unsigned all = __ballot_sync(~0U, marked);
      if (marked) {
        to[__popc(all & ((1U << lane) - 1))] = first + lane;
        atomicOr(words + first + lane, 1U << own);
      }
      to += __popc(all);
    }
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < view.experts; e += threads)
    view.words[static_cast<std::int64_t>(blockIdx.x) * view.experts + e] = words[e];
}

// One block a range. Clears the bits of an expert's tokens beyond the capacity, so that these choices get no row.
__global__ void __launch_bounds__(threads) drop_kernel(RouterView view, int capacity) {
  wait_for_previous();
  const int blocks = (view.range + block_tokens - 1) / block_tokens;
  unsigned* const words = view.words + static_cast<std::int64_t>(blockIdx.x) * blocks * view.experts;
  for (int e = static_cast<int>(threadIdx.x); e < view.experts; e += threads) {
    int free = capacity;
    for (int block = 0; block < blocks; ++block) {
      unsigned& at = words[static_cast<std::int64_t>(block) * view.experts + e];
      unsigned word = at;
      while (__popc(word) > free) word &= ~(1U << (31 - __clz(static_cast<int>(word))));
      free -= __popc(word);
      at = word;
    }
  }
}

__device__ float weight_of(const RouterView& view, int token, int expert) {
  const float* const probabilities = view.probabilities + static_cast<std::int64_t>(token) * view.experts;
  const float scaled = view.rule.scale * probabilities[expert];
  if (!view.normalised) return scaled;
  double sum = 0;
  for (int c = 0; c < view.chosen; ++c) sum += probabilities[view.of_token[static_cast<std::int64_t>(token) * view.chosen + c]];
  return static_cast<float>(scaled / sum);
}

__global__ void __launch_bounds__(threads) place_kernel(RouterView view) {
  extern __shared__ int shared[];
  wait_for_previous();
  const RowOrder order = find_row_order(view.words, view.experts, shared);
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  if (block == 0)
    for (int e = thread; e <= view.experts; e += threads) view.offsets[e] = order.offsets[e];
  const unsigned* const words = view.words + static_cast<std::int64_t>(block) * view.experts;
  const BlockTokens tokens(view);
  for (int choice = thread; choice < tokens.count * view.chosen; choice += threads) {
    const int own = choice / view.chosen, token = tokens.first + own;
    const std::int64_t at = static_cast<std::int64_t>(tokens.first) * view.chosen + choice;
    const int e = view.of_token[at];
    if ((words[e] >> own & 1U) == 0) {
      view.places[at] = -1;
      continue;
    }
    const int row = order.row_of(e, words[e], own);
    view.places[at] = row;
    view.row_tokens[row] = token;
    view.weights[row] = weight_of(view, token, e);
  }
}

// Adds up one range of a sequence's choices.
__global__ void count_kernel(const int* of_token, int* counts, int experts, std::int64_t of_sequence, int per_block) {
  extern __shared__ int own[];
  wait_for_previous();
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += static_cast<int>(blockDim.x)) own[e] = 0;
  __syncthreads();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * per_block, end = min(first + per_block, of_sequence);
  for (std::int64_t choice = first + threadIdx.x; choice < end; choice += blockDim.x)
    atomicAdd(own + of_token[blockIdx.y * of_sequence + choice], 1);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += static_cast<int>(blockDim.x))
    if (own[e] > 0) atomicAdd(counts + static_cast<std::int64_t>(blockIdx.y) * experts + e, own[e]);
}

std::int64_t ranges_of(const RouteArgs& args) { return args.capacity.tokens > 0 ? args.capacity.batch : 1; }

std::int64_t blocks_of(const RouteArgs& args) {
  return ranges_of(args) * ceil_div<std::int64_t>(args.logits.rows() / ranges_of(args), block_tokens);
}

}  // namespace

std::size_t route_scratch(const RouteArgs& args) {
  return static_cast<std::size_t>(blocks_of(args) * args.logits.cols()) * sizeof(unsigned);
}

void route(cudaStream_t stream, const RouteArgs& args, void* scratch) {
  const Routing& routing = args.routing;
  const std::int64_t experts = args.logits.cols(), tokens = args.logits.rows();
  if (experts > most_experts)
    throw Error(ErrorKind::unavailable, "a router of " + std::to_string(experts) + " experts: GPUs take at most " +
                                            std::to_string(most_experts) + "; use the CPU");
  if (args.rule.groups > most_groups)
    throw Error(ErrorKind::unavailable, "a router of " + std::to_string(args.rule.groups) +
                                            " groups of experts: GPUs take at most " + std::to_string(most_groups) +
                                            "; use the CPU");
  if (tokens == 0) {
    cudaMemsetAsync(routing.offsets.data, 0, routing.offsets.bytes(), stream);
    return;
  }
  const RouterView view{.logits = data_of<float>(args.logits),
                        .bias = args.bias.shape.rank() == 0 ? nullptr : data_of<float>(args.bias),
                        .correction = args.correction.shape.rank() == 0 ? nullptr : data_of<float>(args.correction),
                        .rule = args.rule,
                        .tokens = static_cast<int>(tokens),
                        .experts = static_cast<int>(experts),
                        .chosen = static_cast<int>(routing.experts.cols()),
                        .range = static_cast<int>(tokens / ranges_of(args)),
                        .normalised = args.normalised,
                        .probabilities = data_of<float>(routing.probabilities),
                        .log_sum_exp = data_of<float>(routing.log_sum_exp),
                        .weights = data_of<float>(routing.weights),
                        .of_token = data_of<int>(routing.experts),
                        .places = data_of<int>(routing.places),
                        .row_tokens = data_of<int>(routing.tokens),
                        .offsets = data_of<int>(routing.offsets),
                        .words = static_cast<unsigned*>(scratch)};
  const auto blocks = static_cast<unsigned>(blocks_of(args));
  launch(stream, choose_kernel, blocks, threads, static_cast<std::size_t>(experts) * sizeof(int), view);
  if (args.capacity.tokens > 0) {
    // No expert gets more rows of a sequence than it has tokens.
    const auto capacity = static_cast<int>(std::min<std::int64_t>(args.capacity.tokens, view.range));
    launch(stream, drop_kernel, static_cast<unsigned>(ranges_of(args)), threads, 0, view, capacity);
  }
  launch(stream, place_kernel, blocks, threads, row_order_bytes(experts), view);
}

void count_experts(cudaStream_t stream, const CountExpertsArgs& args) {
  constexpr int per_block = 4096;
  const std::int64_t batch = args.counts.rows(), of_sequence = args.experts.elements() / batch, experts = args.counts.cols();
  if (of_sequence == 0) return;
  launch(stream, count_kernel, dim3(blocks_for(of_sequence, per_block), static_cast<unsigned>(batch)), 256,
         static_cast<std::size_t>(experts) * sizeof(int), data_of<int>(args.experts), data_of<int>(args.counts),
         static_cast<int>(experts), of_sequence, per_block);
}

}  // namespace pipetrain::cuda
