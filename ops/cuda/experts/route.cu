// The router's choice of experts and the order of the rows, in two launches. Each block has 32 tokens, and for every expert a
// word whose bits are the tokens of the block that have chosen it: a row's place is the number of bits before its own.
#include "core/error.hpp"
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int block_tokens = 32;
constexpr int most_experts = 1024;  // so that each lane marks its choices in one word
constexpr int threads = 1024;

struct RouterView {
  const float* logits;
  int tokens, experts, chosen;
  bool normalised;
  float *probabilities, *log_sum_exp, *weights;
  int *of_token, *places, *row_tokens, *offsets;
  unsigned* words;  // [blocks, E]
};

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
  if (lane == 0) view.log_sum_exp[token] = static_cast<float>(largest + log(sum));
}

// Returns the lane's marks of the experts with the largest logits: bit i is expert 32 i + lane. Logits that are not numbers
// count as the smallest.
__device__ unsigned choose_for_token(const RouterView& view, int token, int lane) {
  const float* const logits = view.logits + static_cast<std::int64_t>(token) * view.experts;
  unsigned marks = 0;
  for (int c = 0; c < view.chosen; ++c) {
    float best = -INFINITY;
    int expert = -1;
    for (int e = lane, i = 0; e < view.experts; e += 32, ++i) {
      const float logit = logits[e] > -INFINITY ? logits[e] : -INFINITY;
      if ((marks >> i & 1U) == 0 && (expert < 0 || logit > best)) best = logit, expert = e;
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
  const int lane = static_cast<int>(threadIdx.x) % 32, own = static_cast<int>(threadIdx.x) / 32,
            token = static_cast<int>(blockIdx.x) * block_tokens + own;
  if (token < view.tokens) {
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

// Turns totals into the sums of those before each, the last entry into the sum of all. For one warp.
__device__ void add_up(int* totals, int count, int lane) {
  int so_far = 0;
  for (int first = 0; first < count; first += 32) {
    const int own = first + lane < count ? totals[first + lane] : 0;
    int sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0U, sum, step);
      if (lane >= step) sum += other;
    }
    if (first + lane < count) totals[first + lane] = so_far + sum - own;
    so_far += __shfl_sync(~0U, sum, 31);
  }
  if (lane == 0) totals[count] = so_far;
}

__device__ float weight_of(const RouterView& view, int token, int expert) {
  const float* const probabilities = view.probabilities + static_cast<std::int64_t>(token) * view.experts;
  if (!view.normalised) return probabilities[expert];
  double sum = 0;
  for (int c = 0; c < view.chosen; ++c) sum += probabilities[view.of_token[static_cast<std::int64_t>(token) * view.chosen + c]];
  return static_cast<float>(probabilities[expert] / sum);
}

__global__ void __launch_bounds__(threads) place_kernel(RouterView view) {
  extern __shared__ int shared[];
  int *const offsets = shared, *const before = shared + view.experts + 1;  // [E + 1] and [E]: the rows of earlier blocks
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x), experts = view.experts;
  for (int e = thread; e < experts; e += threads) offsets[e] = before[e] = 0;
  __syncthreads();
  const int groups = threads / experts, expert = thread % experts;
  int all = 0, earlier = 0;
  for (int other = thread / experts; other < static_cast<int>(gridDim.x) && thread < groups * experts; other += groups) {
    const int rows = __popc(view.words[static_cast<std::int64_t>(other) * experts + expert]);
    all += rows;
    if (other < block) earlier += rows;
  }
  if (all > 0) atomicAdd(offsets + expert, all);
  if (earlier > 0) atomicAdd(before + expert, earlier);
  __syncthreads();
  if (thread < 32) add_up(offsets, experts, thread);
  __syncthreads();
  if (block == 0)
    for (int e = thread; e <= experts; e += threads) view.offsets[e] = offsets[e];
  const unsigned* const words = view.words + static_cast<std::int64_t>(block) * experts;
  for (int choice = thread; choice < block_tokens * view.chosen; choice += threads) {
    const int own = choice / view.chosen, token = block * block_tokens + own;
    if (token >= view.tokens) break;
    const std::int64_t at = static_cast<std::int64_t>(block) * block_tokens * view.chosen + choice;
    const int e = view.of_token[at], row = offsets[e] + before[e] + __popc(words[e] & ((1U << own) - 1));
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

}  // namespace

std::size_t route_scratch(const Routing& routing) {
  const std::int64_t blocks = ceil_div<std::int64_t>(routing.experts.rows(), block_tokens);
  return static_cast<std::size_t>(blocks * routing.probabilities.cols()) * sizeof(unsigned);
}

void route(cudaStream_t stream, const RouteArgs& args, void* scratch) {
  const Routing& routing = args.routing;
  const std::int64_t experts = args.logits.cols(), tokens = args.logits.rows();
  if (experts > most_experts)
    throw Error(ErrorKind::unavailable, "a router of " + std::to_string(experts) + " experts: GPUs take at most " +
                                            std::to_string(most_experts) + "; use the CPU");
  if (tokens == 0) {
    cudaMemsetAsync(routing.offsets.data, 0, routing.offsets.bytes(), stream);
    return;
  }
  const RouterView view{.logits = data_of<float>(args.logits),
                        .tokens = static_cast<int>(tokens),
                        .experts = static_cast<int>(experts),
                        .chosen = static_cast<int>(routing.experts.cols()),
                        .normalised = args.normalised,
                        .probabilities = data_of<float>(routing.probabilities),
                        .log_sum_exp = data_of<float>(routing.log_sum_exp),
                        .weights = data_of<float>(routing.weights),
                        .of_token = data_of<int>(routing.experts),
                        .places = data_of<int>(routing.places),
                        .row_tokens = data_of<int>(routing.tokens),
                        .offsets = data_of<int>(routing.offsets),
                        .words = static_cast<unsigned*>(scratch)};
  const unsigned blocks = blocks_for(tokens, block_tokens);
  const auto columns = static_cast<std::size_t>(experts) * sizeof(int);
  launch(stream, choose_kernel, blocks, threads, columns, view);
  launch(stream, place_kernel, blocks, threads, 2 * columns + sizeof(int), view);
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
