// The order of the rows that a rank computes for its expert-parallel group, in two launches.
#include <string>

#include "core/error.hpp"
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/experts/row_order.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

struct ReceivedView {
  const int* experts;  // [N, C]
  const float* weights;
  const int* from;                   // [ranks + 1]
  int most, chosen, ranks, of_rank;  // most: N
  int* tokens;
  float* row_weights;
  int *offsets, *returned, *return_offsets;
  unsigned* words;  // [blocks, experts of this rank]

  __device__ int first_token() const { return static_cast<int>(blockIdx.x) * block_tokens; }
  // Returns the number of the first token from a rank, or that of all tokens.
  __device__ int from_rank(int rank) const { return min(max(from[rank], 0), most); }
  // Returns the number of tokens of the block that were received.
  __device__ int token_count() const { return min(block_tokens, max(0, from_rank(ranks) - first_token())); }
  // Returns how many of a token's experts this rank has: those before the first -1. They ascend. Memory that an abort has left
  // as it was may hold anything else, which must not become an index.
  __device__ int own_experts(int token) const {
    const int* const of_token = experts + static_cast<std::int64_t>(token) * chosen;
    int own = 0;
    for (int last = -1; own < chosen && of_token[own] > last && of_token[own] < of_rank; ++own) last = of_token[own];
    return own;
  }
};

__global__ void __launch_bounds__(order_threads) mark_received_kernel(ReceivedView view) {
  extern __shared__ unsigned marks[];  // [experts of this rank]
  __shared__ int own[block_tokens];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < view.of_rank; e += order_threads) marks[e] = 0;
  if (thread < view.token_count()) own[thread] = view.own_experts(view.first_token() + thread);
  __syncthreads();
  const std::int64_t first = static_cast<std::int64_t>(view.first_token()) * view.chosen;
  for (int choice = thread; choice < view.token_count() * view.chosen; choice += order_threads) {
    const int token = choice / view.chosen;
    if (choice % view.chosen < own[token]) atomicOr(marks + view.experts[first + choice], 1U << token);
  }
  __syncthreads();
  for (int e = thread; e < view.of_rank; e += order_threads)
    view.words[static_cast<std::int64_t>(blockIdx.x) * view.of_rank + e] = marks[e];
}

// Writes to `first` [block_tokens + 1] the number of rows before each token of the block, and those before the next block. For
// one warp.
__device__ void find_first_rows(const ReceivedView& view, const RowOrder& order, int* first, int lane) {
  int earlier = 0;
  for (int e = lane; e < view.of_rank; e += 32) earlier += order.before[e];
  earlier = warp_sum(earlier);
  const int own = lane < view.token_count() ? view.own_experts(view.first_token() + lane) : 0;
  int sum = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(~0U, sum, step);
    if (lane >= step) sum += other;
  }
  first[lane] = earlier + sum - own;
  if (lane == 31) first[block_tokens] = earlier + sum;
}

__global__ void __launch_bounds__(order_threads) place_received_kernel(ReceivedView view) {
  extern __shared__ int shared[];
  __shared__ int first[block_tokens + 1];
  wait_for_previous();
  const RowOrder order = find_row_order(view.words, view.of_rank, shared);
  const int thread = static_cast<int>(threadIdx.x), first_token = view.first_token();
  if (thread < 32) find_first_rows(view, order, first, thread);
  __syncthreads();
  if (blockIdx.x == 0)
    for (int e = thread; e <= view.of_rank; e += order_threads) view.offsets[e] = order.offsets[e];
  for (int rank = thread; rank <= view.ranks; rank += order_threads) {
    const int from = view.from_rank(rank), end = static_cast<int>(gridDim.x) * block_tokens;
    if (from / block_tokens == static_cast<int>(blockIdx.x)) view.return_offsets[rank] = first[from - first_token];
    if (blockIdx.x == 0 && from >= end) view.return_offsets[rank] = order.offsets[view.of_rank];
  }
  const unsigned* const words = view.words + static_cast<std::int64_t>(blockIdx.x) * view.of_rank;
  for (int choice = thread; choice < view.token_count() * view.chosen; choice += order_threads) {
    const int token = choice / view.chosen, place = first[token] + choice % view.chosen;
    if (place >= first[token + 1]) continue;
    const std::int64_t at = static_cast<std::int64_t>(first_token) * view.chosen + choice;
    const int expert = view.experts[at], row = order.row_of(expert, words[expert], token);
    view.tokens[row] = first_token + token;
    view.row_weights[row] = view.weights[at];
    view.returned[place] = row;
  }
}

int experts_of(const SortReceivedArgs& args) { return static_cast<int>(args.rows.offsets.elements() - 1); }

unsigned received_blocks(const SortReceivedArgs& args) { return blocks_for(args.experts.rows(), block_tokens); }

}  // namespace

std::size_t sort_received_scratch(const SortReceivedArgs& args) {
  return static_cast<std::size_t>(received_blocks(args)) * static_cast<std::size_t>(experts_of(args)) * sizeof(unsigned);
}

void sort_received(cudaStream_t stream, const SortReceivedArgs& args, void* scratch) {
  const ReceivedRows& rows = args.rows;
  const int experts = experts_of(args);
  if (experts > most_experts)
    throw Error(ErrorKind::unavailable, std::to_string(experts) + " experts of a rank: GPUs take at most " +
                                            std::to_string(most_experts) + "; use a larger ep");
  if (args.experts.rows() == 0) {
    for (const Tensor& offsets : {rows.offsets, rows.return_offsets}) cudaMemsetAsync(offsets.data, 0, offsets.bytes(), stream);
    return;
  }
  const ReceivedView view{.experts = data_of<int>(args.experts),
                          .weights = data_of<float>(args.weights),
                          .from = data_of<int>(args.offsets),
                          .most = static_cast<int>(args.experts.rows()),
                          .chosen = static_cast<int>(args.experts.cols()),
                          .ranks = static_cast<int>(args.offsets.elements() - 1),
                          .of_rank = experts,
                          .tokens = data_of<int>(rows.tokens),
                          .row_weights = data_of<float>(rows.weights),
                          .offsets = data_of<int>(rows.offsets),
                          .returned = data_of<int>(rows.returned),
                          .return_offsets = data_of<int>(rows.return_offsets),
                          .words = static_cast<unsigned*>(scratch)};
  launch(stream, mark_received_kernel, received_blocks(args), order_threads,
         static_cast<std::size_t>(experts) * sizeof(unsigned), view);
  launch(stream, place_received_kernel, received_blocks(args), order_threads, row_order_bytes(experts), view);
}

}  // namespace pipetrain::cuda
