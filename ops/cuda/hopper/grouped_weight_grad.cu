// A kernel adds the products of an expert's rows of tokens to the gradients of its matrix [N, K], in tiles of 128 rows and 256
// columns; letters as in ops/ops.hpp. The gradients so far are read and written once for the few rows of a microbatch, which
// takes as long as the products. There are two ways, which compute the same sums to the bit:
// - In registers, while shared memory is full of operands: half of the gradients so far is read during the products, the rest
//   while the first sums are written. This is faster if experts have many rows.
// - In shared memory, which then holds half as many operands: all of the gradients so far are read during the products, and the
//   sums are written during those of the next tile. This is faster if memory limits the kernel anyway.
#include "ops/cuda/hopper/grouped_weight_grad.hpp"

#include "ops/cuda/hopper/box_map.hpp"
#include "ops/cuda/hopper/grouped_pipeline.cuh"
#include "ops/cuda/hopper/grouped_products.hpp"
#include "ops/cuda/hopper/weight_grad_sums.cuh"
#include "ops/cuda/hopper/wgmma.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace hopper {
namespace {

enum class SumsIn { registers, shared };

// Experts with fewer rows on average add in shared memory. On an H100 that takes 0.92 of the time in registers with 512 rows
// (GPT-OSS), 0.98 with 256 (Qwen3-30B-A3B), and 1.03 to 1.15 with 1,024.
constexpr std::int64_t rows_in_registers = 640;

struct WeightGradView {
  const int* offsets;  // [E + 1]
  int experts;
  int n, k;  // of each expert's matrix
  float* dw;
  bool adds;     // to the gradients so far
  int* tickets;  // see GroupedView
};

template <SumsIn way>
struct WeightGradShared {
  static constexpr bool has_sums = way == SumsIn::shared;
  static constexpr int depth = has_sums ? 32 : 64, box_bytes = depth * grouped::box_row_bytes;
  static constexpr int a_boxes = grouped::rows / 64, b_boxes = grouped::cols / 64;

  alignas(1024) char a[grouped::stages][a_boxes * box_bytes];
  alignas(1024) char b[grouped::stages][b_boxes * box_bytes];
  alignas(1024) float sums[has_sums ? grouped::rows : 1][grouped::cols];
  Barrier full[grouped::stages], empty[grouped::stages];
  Barrier taken[2], begun[2];
  Barrier loaded[2], summed[2];  // for each group: the gradients so far are in `sums`, and its sums are
  int indices[2];
};

struct WeightGradTile {
  int row, rows, col, cols;  // rows and cols: how many of the expert's matrix begin there
  int first_token, tokens;
  float* dw;

  template <class Shared>
  __device__ int steps() const {
    return (tokens + Shared::depth - 1) / Shared::depth;
  }
};

class WeightGradTiles {
 public:
  explicit __device__ WeightGradTiles(const WeightGradView& view)
      : view_(view),
        rows_((view.n + grouped::rows - 1) / grouped::rows),
        columns_((view.k + grouped::cols - 1) / grouped::cols) {}

  __device__ int count() const { return view_.experts * rows_ * columns_; }
  __device__ WeightGradTile at(int index) const {
    const int expert = index / (rows_ * columns_);
    // The operands of a band of rows stay in the cache while the band passes through all columns.
    const TilePlace place = tile_place<32>(index % (rows_ * columns_), rows_, columns_);
    const int row = place.row * grouped::rows, col = place.col * grouped::cols;
    const int first = __ldg(view_.offsets + expert), last = __ldg(view_.offsets + expert + 1);
    return {.row = row,
            .rows = view_.n - row,
            .col = col,
            .cols = view_.k - col,
            .first_token = first,
            .tokens = last - first,
            .dw = view_.dw + (static_cast<std::int64_t>(expert) * view_.n + row) * view_.k + col};
  }

 private:
  const WeightGradView& view_;
  int rows_, columns_;
};

template <class Shared>
__device__ void load_tiles(const WeightGradView& view, const GroupedMaps& maps, const WeightGradTiles& tiles, Shared& shared) {
  hand_out_tiles(view.tickets, tiles.count(), shared, [&](int index, Stage& stage) {
    const WeightGradTile tile = tiles.at(index);
    for (int step = 0; step < tile.steps<Shared>(); ++step, stage.advance()) {
      Barrier& full = begin_load(shared, stage, (Shared::a_boxes + Shared::b_boxes) * Shared::box_bytes);
      const int token = tile.first_token + step * Shared::depth;
      for (int box = 0; box < Shared::a_boxes; ++box)
        load_box(shared.a[stage.index] + box * Shared::box_bytes, maps.a, tile.row + box * 64, token, full);
      for (int box = 0; box < Shared::b_boxes; ++box)
        load_box(shared.b[stage.index] + box * Shared::box_bytes, maps.b, tile.col + box * 64, token, full);
    }
  });
}

// One warp for each group, which copies the gradients so far of the group's rows to shared memory, and the sums back.
class SumsCopier : TileReader<WeightGradShared<SumsIn::shared>> {
 public:
  __device__ SumsCopier(const WeightGradView& view, const WeightGradTiles& tiles, WeightGradShared<SumsIn::shared>& shared,
                        int group)
      : TileReader(shared, group), view_(view), tiles_(tiles) {}

  __device__ void run() {
    int parity = 0;
    for_each_tile(tiles_, [&](const WeightGradTile& tile) {
      if (tile.tokens == 0) return;
      copy(tile, parity);
      parity ^= 1;
    });
    wait_for_writes();
  }

 private:
  __device__ __forceinline__ void copy(const WeightGradTile& tile, int parity) {
    const int lane = static_cast<int>(threadIdx.x) % 32, rows = max(0, min(64, tile.rows - 64 * group_)),
              bytes = min(grouped::cols, tile.cols) * static_cast<int>(sizeof(float));
    float(*const sums)[grouped::cols] = shared_.sums + 64 * group_;
    const auto in_global = [&](int row) { return tile.dw + static_cast<std::int64_t>(64 * group_ + row) * view_.k; };
    if (lane == 0) arrive_expecting(shared_.loaded[group_], view_.adds ? rows * bytes : 0);
    __syncwarp();
    for (int row = lane; view_.adds && row < rows; row += 32)
      load_bytes_once(sums[row], in_global(row), bytes, shared_.loaded[group_]);
    wait(shared_.summed[group_], parity);
    for (int row = lane; row < rows; row += 32) store_bytes_once(in_global(row), sums[row], bytes);
    wait_until_stores_have_read();
    __syncwarp();
  }

  const WeightGradView& view_;
  const WeightGradTiles& tiles_;
};

// Two groups of warps, each of which computes 64 rows of every tile.
template <class T, SumsIn way>
class WeightGradMultiplier : TileReader<WeightGradShared<way>> {
  using Shared = WeightGradShared<way>;
  using Reader = TileReader<Shared>;
  using Reader::group_, Reader::shared_, Reader::stage_;

 public:
  __device__ WeightGradMultiplier(const WeightGradView& view, const WeightGradTiles& tiles, Shared& shared, int group)
      : Reader(shared, group), view_(view), tiles_(tiles) {}

  __device__ void run() {
    int parity = 0;
    this->for_each_tile(tiles_, [&](const WeightGradTile& tile) {
      if (tile.tokens == 0) {
        if (!view_.adds) store_zeros(tile);
      } else if constexpr (way == SumsIn::registers) {
        add_in_registers(tile);
      } else {
        multiply_tile(tile);
        add_to_loaded(parity);
        parity ^= 1;
      }
    });
  }

 private:
  __device__ __forceinline__ void add_in_registers(const WeightGradTile& tile) {
    const ExactRows rows(tile.dw + static_cast<std::int64_t>(64 * group_) * view_.k, view_.k, tile.rows - 64 * group_,
                         tile.cols);
    ExactRows::Vectors first = {}, second = {};
    if (view_.adds) rows.read<0>(first), rows.read<1>(second);
    multiply_tile(tile);
    rows.write<0>(sums_, first);
    if (view_.adds) rows.read<2>(first);
    rows.write<1>(sums_, second);
    if (view_.adds) rows.read<3>(second);
    rows.write<2>(sums_, first);
    rows.write<3>(sums_, second);
  }

  __device__ __forceinline__ void add_to_loaded(int parity) {
    wait(shared_.loaded[group_], parity);
    float(*const rows)[grouped::cols] = shared_.sums + 64 * group_;
    view_.adds ? add_in_shared<true>(sums_, rows) : add_in_shared<false>(sums_, rows);
    publish_shared();
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(shared_.summed[group_]);
  }

  __device__ __forceinline__ void multiply_tile(const WeightGradTile& tile) {
    constexpr int step_bytes = 16 * grouped::box_row_bytes;
#pragma unroll
    for (int i = 0; i < 128; ++i) sums_[i] = 0;
    this->multiply_steps(tile.steps<Shared>(), [&](int step) {
      if (const int left = tile.tokens - step * Shared::depth; left < Shared::depth) clear_from(left);
      const std::uint32_t a = operand(shared_address(shared_.a[stage_.index] + Shared::box_bytes * group_), Shared::box_bytes),
                          b = operand(shared_address(shared_.b[stage_.index]), Shared::box_bytes);
      begin_products();
      unrolled<Shared::depth / 16>([&](auto part) {
        constexpr int at = decltype(part)::value * step_bytes;
        multiply(T{}, sums_, a, b, DescriptorOffsets<at, at, Along::sides, Along::sides, true>{});
      });
    });
  }

  // The rows after an expert's last one are another expert's: zeros replace them, so that no infinity of theirs counts. Both
  // groups clear the boxes that they share; each waits for its own zeros alone.
  __device__ void clear_from(int row) {
    constexpr int pieces = grouped::box_row_bytes / 16, boxes = 1 + Shared::b_boxes, group = 128;
    for (int i = static_cast<int>(threadIdx.x) % group; i < (Shared::depth - row) * boxes * pieces; i += group) {
      const int box = i / pieces % boxes, at = (row + i / (boxes * pieces)) * grouped::box_row_bytes + i % pieces * 16;
      char* const cleared = box == 0 ? shared_.a[stage_.index] + group_ * Shared::box_bytes
                                     : shared_.b[stage_.index] + (box - 1) * Shared::box_bytes;
      *reinterpret_cast<uint4*>(cleared + at) = uint4{};
    }
    publish_shared();
    sync_at(1 + group_, group);
  }

  // The part of an expert's gradient that no row adds to.
  __device__ void store_zeros(const WeightGradTile& tile) {
    constexpr int pieces = grouped::cols / 4, groups = 256;
    for (int i = static_cast<int>(threadIdx.x); i < grouped::rows * pieces; i += groups) {
      const int row = i / pieces, col = i % pieces * 4;
      if (row < tile.rows && col < tile.cols)
        *reinterpret_cast<float4*>(tile.dw + static_cast<std::int64_t>(row) * view_.k + col) = float4{};
    }
  }

  const WeightGradView& view_;
  const WeightGradTiles& tiles_;
  float sums_[128];
};

template <class T, SumsIn way>
__global__ void __launch_bounds__(grouped::threads, 1)
    weight_grad_kernel(const __grid_constant__ WeightGradView view, const __grid_constant__ GroupedMaps maps) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<WeightGradShared<way>*>(memory);
  make_grouped_barriers(shared, way == SumsIn::shared ? 10 : 8);
  if (threadIdx.x == 0) {
    for (Barrier& loaded : shared.loaded) make_barrier(loaded, 1);
    for (Barrier& summed : shared.summed) make_barrier(summed, 4);
    publish_barriers();
  }
  __syncthreads();
  wait_for_previous();
  const WeightGradTiles tiles(view);
  // Makes the value uniform over the warp, which the compiler cannot prove by itself.
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 8 && threadIdx.x % 32 == 0) load_tiles(view, maps, tiles, shared);
    if constexpr (way == SumsIn::shared) {
      if (warp == 9 || warp == 10) SumsCopier(view, tiles, shared, warp - 9).run();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    WeightGradMultiplier<T, way>(view, tiles, shared, warp / 4).run();
  }
}

template <class T, SumsIn way>
void launch_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args, const HopperGpu& gpu, int* tickets) {
  using Shared = WeightGradShared<way>;
  static_assert(sizeof(Shared) <= 227 * 1024);
  const std::int64_t experts = args.offsets.elements() - 1;
  const WeightGradView view{.offsets = data_of<int>(args.offsets),
                            .experts = static_cast<int>(experts),
                            .n = static_cast<int>(args.dw.rows() / experts),
                            .k = static_cast<int>(args.dw.cols()),
                            .dw = data_of<float>(args.dw),
                            .adds = args.accumulate == Accumulate::yes,
                            .tickets = tickets};
  const auto map = [](const Tensor& x) { return box_map<T>({x.data, x.cols(), x.rows()}, Shared::depth); };
  const GroupedMaps maps{map(args.dy), map(args.x)};
  const auto kernel = weight_grad_kernel<T, way>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sizeof(Shared)));
  launch(stream, kernel, static_cast<unsigned>(gpu.multiprocessors), grouped::threads, sizeof(Shared), view, maps);
}

template <class T>
void launch_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args, const HopperGpu& gpu, int* tickets) {
  const bool few_rows = args.x.rows() < rows_in_registers * (args.offsets.elements() - 1);
  few_rows ? launch_weight_grad<T, SumsIn::shared>(stream, args, gpu, tickets)
           : launch_weight_grad<T, SumsIn::registers>(stream, args, gpu, tickets);
}

}  // namespace
}  // namespace hopper

bool takes_hopper_grouped(const GroupedWeightGradArgs& args, const HopperGpu& gpu) {
  return gpu.available && hopper::takes_operands(args.dy, args.x, args.dw, args.offsets);
}

void hopper_grouped_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args, const HopperGpu& gpu, int* tickets) {
  args.dy.dtype == DType::bf16 ? hopper::launch_weight_grad<__nv_bfloat16>(stream, args, gpu, tickets)
                               : hopper::launch_weight_grad<__half>(stream, args, gpu, tickets);
}

}  // namespace pipetrain::cuda
