// The tokens that a rank sends to the others of its expert-parallel group, in two launches: the first counts those of each
// block, the second adds up the counts of earlier blocks.
#include "ops/cuda/experts/experts.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int send_threads = 256;  // one a token
constexpr int send_warps = send_threads / 32;

struct SendView {
  const int *of_token, *places;
  const float* weights;
  int tokens, chosen, ranks, of_rank;  // of_rank: the number of experts of each rank
  int *sent_tokens, *sent_experts;
  float* sent_weights;
  int *offsets, *return_places;
  int2* totals;  // [blocks, ranks]: the tokens of the block that the rank gets, and their rows
};

// A token's choices [begin, end) whose experts one rank holds, and how many of them are not dropped.
struct RankChoices {
  int rank, begin, end, kept;
};

// Experts ascend, so that the choices of one rank are adjacent.
__device__ RankChoices choices_from(const SendView& view, int token, int begin) {
  const int* const experts = view.of_token + static_cast<std::int64_t>(token) * view.chosen;
  const int* const places = view.places + static_cast<std::int64_t>(token) * view.chosen;
  RankChoices found{view.ranks, begin, begin, 0};
  if (begin < view.chosen) found.rank = experts[begin] / view.of_rank;
  for (; found.end < view.chosen && experts[found.end] / view.of_rank == found.rank; ++found.end)
    found.kept += places[found.end] >= 0;
  return found;
}

__global__ void __launch_bounds__(send_threads) count_sent_kernel(SendView view) {
  extern __shared__ int2 totals[];  // [ranks]
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x), token = static_cast<int>(blockIdx.x) * send_threads + thread;
  for (int rank = thread; rank < view.ranks; rank += send_threads) totals[rank] = {0, 0};
  __syncthreads();
  for (int begin = 0; token < view.tokens && begin < view.chosen;) {
    const RankChoices choices = choices_from(view, token, begin);
    begin = choices.end;
    if (choices.kept == 0) continue;
    atomicAdd(&totals[choices.rank].x, 1);
    atomicAdd(&totals[choices.rank].y, choices.kept);
  }
  __syncthreads();
  for (int rank = thread; rank < view.ranks; rank += send_threads)
    view.totals[static_cast<std::int64_t>(blockIdx.x) * view.ranks + rank] = totals[rank];
}

// The places of a block's first token and first row for each rank, in shared memory.
struct FirstSent {
  int2* all;      // [ranks + 1]: of all blocks; find_first_sent() turns it into the sums of the ranks before each
  int2* earlier;  // [ranks]: of earlier blocks
};

constexpr std::size_t first_sent_bytes(std::int64_t ranks) { return static_cast<std::size_t>(2 * ranks + 1) * sizeof(int2); }

__device__ FirstSent find_first_sent(const SendView& view, int2* memory) {
  const FirstSent first{memory, memory + view.ranks + 1};
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 2 * view.ranks + 1; i += send_threads) memory[i] = {0, 0};
  __syncthreads();
  for (int i = thread; i < static_cast<int>(gridDim.x) * view.ranks; i += send_threads) {
    const int2 total = view.totals[i];
    atomicAdd(&first.all[i % view.ranks].x, total.x);
    atomicAdd(&first.all[i % view.ranks].y, total.y);
    if (i / view.ranks >= static_cast<int>(blockIdx.x)) continue;
    atomicAdd(&first.earlier[i % view.ranks].x, total.x);
    atomicAdd(&first.earlier[i % view.ranks].y, total.y);
  }
  __syncthreads();
  if (thread == 0) {
    int2 so_far{0, 0};
    for (int rank = 0; rank <= view.ranks; ++rank) {
      const int2 own = first.all[rank];
      first.all[rank] = so_far;
      so_far = {so_far.x + own.x, so_far.y + own.y};
    }
  }
  __syncthreads();
  return first;
}

// Returns the sums of the tokens (x) and rows (y) of the threads before this one. of_warps: [send_warps] in shared memory. All
// threads must call it.
__device__ int2 sum_before(int2 own, int2* of_warps) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int2 sum = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const int2 other{__shfl_up_sync(~0U, sum.x, step), __shfl_up_sync(~0U, sum.y, step)};
    if (lane >= step) sum.x += other.x, sum.y += other.y;
  }
  __syncthreads();  // the sums of the call before have been read
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  int2 before{sum.x - own.x, sum.y - own.y};
  for (int other = 0; other < warp; ++other) before.x += of_warps[other].x, before.y += of_warps[other].y;
  return before;
}

// Writes a token that a rank gets, and the places of its rows among those that come back.
__device__ void write_sent(const SendView& view, int token, const RankChoices& choices, int2 at) {
  const std::int64_t from = static_cast<std::int64_t>(token) * view.chosen, to = static_cast<std::int64_t>(at.x) * view.chosen;
  int taken = 0;
  for (int c = choices.begin; c < choices.end; ++c) {
    const int place = view.places[from + c];
    view.return_places[from + c] = place < 0 ? -1 : at.y + taken;
    if (place < 0) continue;
    view.sent_experts[to + taken] = view.of_token[from + c] - choices.rank * view.of_rank;
    view.sent_weights[to + taken++] = view.weights[place];
  }
  if (taken == 0) return;
  view.sent_tokens[at.x] = token;
  for (; taken < view.chosen; ++taken) view.sent_experts[to + taken] = -1, view.sent_weights[to + taken] = 0;
}

__global__ void __launch_bounds__(send_threads) place_sent_kernel(SendView view) {
  extern __shared__ int2 shared[];
  __shared__ int2 of_warps[send_warps];
  wait_for_previous();
  const FirstSent first = find_first_sent(view, shared);
  const int thread = static_cast<int>(threadIdx.x), token = static_cast<int>(blockIdx.x) * send_threads + thread;
  const bool exists = token < view.tokens;
  if (blockIdx.x == 0)
    for (int rank = thread; rank <= view.ranks; rank += send_threads) view.offsets[rank] = first.all[rank].x;
  RankChoices choices = exists ? choices_from(view, token, 0) : RankChoices{view.ranks, 0, 0, 0};
  for (int rank = 0; rank < view.ranks; ++rank) {
    const bool mine = choices.rank == rank;
    const int kept = mine ? choices.kept : 0;
    const int2 before = sum_before({kept > 0 ? 1 : 0, kept}, of_warps);
    if (!mine) continue;
    write_sent(view, token, choices,
               {first.all[rank].x + first.earlier[rank].x + before.x, first.all[rank].y + first.earlier[rank].y + before.y});
    choices = choices_from(view, token, choices.end);
  }
}

int ranks_of(const SendTokensArgs& args) { return static_cast<int>(args.sent.offsets.elements() - 1); }

unsigned send_blocks(const SendTokensArgs& args) { return blocks_for(args.routing.experts.rows(), send_threads); }

}  // namespace

std::size_t send_tokens_scratch(const SendTokensArgs& args) {
  return static_cast<std::size_t>(send_blocks(args)) * static_cast<std::size_t>(ranks_of(args)) * sizeof(int2);
}

void send_tokens(cudaStream_t stream, const SendTokensArgs& args, void* scratch) {
  const Routing& routing = args.routing;
  const SentTokens& sent = args.sent;
  const int ranks = ranks_of(args);
  if (routing.experts.rows() == 0) {
    cudaMemsetAsync(sent.offsets.data, 0, sent.offsets.bytes(), stream);
    return;
  }
  const SendView view{.of_token = data_of<int>(routing.experts),
                      .places = data_of<int>(routing.places),
                      .weights = data_of<float>(routing.weights),
                      .tokens = static_cast<int>(routing.experts.rows()),
                      .chosen = static_cast<int>(routing.experts.cols()),
                      .ranks = ranks,
                      .of_rank = static_cast<int>(routing.probabilities.cols()) / ranks,
                      .sent_tokens = data_of<int>(sent.tokens),
                      .sent_experts = data_of<int>(sent.experts),
                      .sent_weights = data_of<float>(sent.weights),
                      .offsets = data_of<int>(sent.offsets),
                      .return_places = data_of<int>(sent.places),
                      .totals = static_cast<int2*>(scratch)};
  launch(stream, count_sent_kernel, send_blocks(args), send_threads, static_cast<std::size_t>(ranks) * sizeof(int2), view);
  launch(stream, place_sent_kernel, send_blocks(args), send_threads, first_sent_bytes(ranks), view);
}

}  // namespace pipetrain::cuda
