#include "ops/cuda/hopper/norm_backward.hpp"

#include "ops/cuda/hopper/bulk_copy.cuh"
#include "ops/cuda/norm/norm_backward.cuh"

namespace pipetrain::cuda {
namespace {

using namespace hopper;

constexpr int rows_ahead = 2;

// Like NextRow, but the tensor memory accelerator loads a row's dy, x and residual as whole rows. That costs
// the threads nothing, so that more than one row can be in flight. One thread of a team issues the loads.
template <class T, int W, int N>
struct BulkRows {
  struct Shared {
    Barrier full[max_warps][rows_ahead];  // for the block's teams
  };

  __device__ BulkRows(char* dynamic, Shared& shared, const NormInputs<T>& inputs)
      : in(inputs),
        memory(reinterpret_cast<T*>(dynamic) + static_cast<std::int64_t>(threadIdx.y) * rows_ahead * 3 * inputs.cols),
        full(shared.full[threadIdx.y]) {
    if (threadIdx.x == 0) {
      for (int slot = 0; slot < rows_ahead; ++slot) make_barrier(full[slot], 1);
      publish_barriers();
    }
    __syncthreads();
  }

  static int bytes(dim3 block, int cols) { return static_cast<int>(sizeof(T) * 3 * rows_ahead * cols * block.y); }

  __device__ void start(std::int64_t row, std::int64_t stride) {
    if (threadIdx.x != 0) return;
    for (int slot = 0; slot < rows_ahead; ++slot) fetch(row - slot * stride, slot);
  }

  __device__ void take(Pack<T, W> (&of_dy)[N], Pack<T, W> (&of_x)[N], Pack<T, W> (&of_residual)[N]) {
    wait(full[slot], parity);
    const T* const row = memory + slot * 3 * in.cols;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int pack = threadIdx.x + n * blockDim.x;
      if (pack >= in.cols / W) continue;
      of_dy[n] = load<W>(row, pack);
      of_x[n] = load<W>(row + in.cols, pack);
      if (in.residual != nullptr) of_residual[n] = load<W>(row + 2 * in.cols, pack);
    }
  }

  __device__ void taken(std::int64_t, std::int64_t) {}

  // The row's buffer is reused for the next row to be loaded.
  __device__ void all_taken(std::int64_t row, std::int64_t stride) {
    if (blockDim.x == 32) __syncwarp();  // larger teams have synchronised
    if (threadIdx.x == 0) fetch(row - rows_ahead * stride, slot);
    slot += 1;
    if (slot == rows_ahead) slot = 0, parity ^= 1;
  }

 private:
  __device__ void fetch(std::int64_t row, int to) {
    if (row < 0) return;
    const int bytes = in.cols * static_cast<int>(sizeof(T));
    T* const place = memory + to * 3 * in.cols;
    arrive_expecting(full[to], in.residual == nullptr ? 2 * bytes : 3 * bytes);
    load_bytes(place, in.dy + row * in.cols, bytes, full[to]);
    load_bytes(place + in.cols, in.x + row * in.cols, bytes, full[to]);
    if (in.residual != nullptr) load_bytes(place + 2 * in.cols, in.residual + row * in.cols, bytes, full[to]);
  }

  NormInputs<T> in;
  T* memory;  // this team's: [rows_ahead][3][cols]
  Barrier (&full)[rows_ahead];
  int slot = 0, parity = 0;  // of the row that is processed next
};

// A thread holds two packs, or three of a row that a single warp processes.
constexpr int bulk_most_packs = 3;
// The columns that two packs a thread can hold, and so those of at least one team's rows.
constexpr std::int64_t most_columns = backward_packs * backward_threads * full_width<bf16>;
static_assert(rows_ahead * 3 * most_columns * sizeof(bf16) <= 227 * 1024);
static_assert(rows_ahead * 3 * 12 * 768 * sizeof(bf16) <= 227 * 1024);  // 12 teams of a warp, three packs a thread

template <class T, class TW>
void backward(cudaStream_t stream, const LayerNormBackwardArgs& args, int multiprocessors, void* scratch) {
  constexpr const char* what = "layer_norm_backward";
  constexpr int W = full_width<T>;
  if (args.residual_sums) {
    launch_norm_backward<true, true, BulkRows, bulk_most_packs, T, TW, W>(stream, what, args, multiprocessors, scratch);
  } else {
    launch_norm_backward<true, false, BulkRows, bulk_most_packs, T, TW, W>(stream, what, args, multiprocessors, scratch);
  }
}

}  // namespace

bool takes_hopper_norm_backward(const LayerNormBackwardArgs& args, const HopperGpu& gpu) {
  const std::int64_t cols = args.x.cols();
  return gpu.available && size_of(args.x.dtype) == 2 && cols % full_width<bf16> == 0 && cols <= most_columns && aligned16(args);
}

void hopper_layer_norm_backward(cudaStream_t stream, const LayerNormBackwardArgs& args, const HopperGpu& gpu, void* scratch) {
  if (args.x.rows() == 0) return;
  with_types(args.x.dtype, args.weight.dtype, "layer_norm_backward", [&](auto t, auto tw) {
    using T = typename decltype(t)::type;
    using TW = typename decltype(tw)::type;
    if constexpr (sizeof(T) == 2) backward<T, TW>(stream, args, gpu.multiprocessors, scratch);
  });
}

}  // namespace pipetrain::cuda
