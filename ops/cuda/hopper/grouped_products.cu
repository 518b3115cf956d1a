#include "ops/cuda/hopper/grouped_products.hpp"

#include <algorithm>

#include "ops/cuda/hopper/box_map.hpp"
#include "ops/cuda/hopper/grouped_results.cuh"
#include "ops/cuda/hopper/grouped_tiles.cuh"
#include "ops/cuda/hopper/wgmma.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda {
namespace hopper {
namespace {

struct GroupedShared {
  alignas(1024) char a[grouped::stages][grouped::a_bytes];
  alignas(1024) char b[grouped::stages][grouped::b_bytes];
  Barrier full[grouped::stages], empty[grouped::stages];
  Barrier taken[2], begun[2];
  int indices[2];  // of the tiles that the block has taken, in turn; -1 after the last
};

__device__ int steps_of(const GroupedTile& tile) { return (tile.depth + grouped::depth - 1) / grouped::depth; }

// Counts the steps of all tiles of a block, whose operands pass through the buffers in turn.
struct Stage {
  int index = 0, parity = 0;
  __device__ void advance() {
    if (++index == grouped::stages) index = 0, parity ^= 1;
  }
};

// One thread takes tiles and loads their operands. A block takes its next tile when it begins one, because the time of a tile
// depends on its rows.
template <Product product>
__device__ void load_tiles(const GroupedView& view, const GroupedMaps& maps, const GroupedTiles<product>& tiles,
                           GroupedShared& shared) {
  const int blocks = static_cast<int>(gridDim.x), count = tiles.count();
  int index = static_cast<int>(blockIdx.x);
  Stage stage;
  for (int round = 0;; ++round) {
    const int slot = round % 2;
    wait(shared.begun[slot], round / 2 % 2 ^ 1);
    shared.indices[slot] = index < count ? index : -1;
    arrive(shared.taken[slot]);
    if (index >= count) break;
    const int next = blocks + atomicAdd(view.tickets, 1);
    const GroupedTile tile = tiles.at(index);
    for (int step = 0; step < steps_of(tile); ++step, stage.advance()) {
      wait(shared.empty[stage.index], stage.parity ^ 1);
      arrive_expecting(shared.full[stage.index], step_bytes<product>(tile));
      load_step<product>(view, maps, tile, step * grouped::depth, shared.a[stage.index], shared.b[stage.index],
                         shared.full[stage.index]);
    }
    index = next;
  }
  if (atomicAdd(view.tickets + 1, 1) == blocks - 1) view.tickets[0] = view.tickets[1] = 0;
}

// Two groups of warps, each of which computes 64 rows of every tile.
template <Product product, class T>
class Multiplier {
 public:
  __device__ Multiplier(const GroupedView& view, const GroupedTiles<product>& tiles, GroupedShared& shared, int group)
      : view_(view), tiles_(tiles), shared_(shared), group_(group) {}

  __device__ void run() {
    for (int round = 0;; ++round) {
      const int index = take(round);
      if (index < 0) return;
      const GroupedTile tile = tiles_.at(index);
      if constexpr (product == Product::dw) {
        add_weights(tile);
      } else if (tile.rows <= 64 * group_) {
        skip(tile);
      } else {
        multiply_tile(tile);
        store(tile);
      }
    }
  }

 private:
  static constexpr Along of_a = product == Product::dw ? Along::sides : Along::depth,
                         of_b = product == Product::y ? Along::depth : Along::sides;
  static constexpr int a_step = of_a == Along::depth ? 32 : 16 * grouped::box_row_bytes,
                       b_step = of_b == Along::depth ? 32 : 16 * grouped::box_row_bytes;

  // Returns the index of the block's next tile, or -1.
  __device__ int take(int round) {
    const int slot = round % 2;
    wait(shared_.taken[slot], round / 2 % 2);
    const int index = shared_.indices[slot];
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(shared_.begun[slot]);
    return index;
  }

  __device__ __forceinline__ void add_weights(const GroupedTile& tile) {
    if (tile.depth > 0) {
      multiply_and_add(tile);
    } else if (!view_.adds) {
      store_zeros(tile);
    }
  }

  // The first half of the gradients so far is read while the products are computed, the second while the first is written:
  // memory takes most of the time if experts have few rows.
  __device__ __forceinline__ void multiply_and_add(const GroupedTile& tile) {
    const std::int64_t row = static_cast<std::int64_t>(tile.expert) * view_.n + tile.row + 64 * group_, stride = view_.k;
    const ExactRows rows(static_cast<float*>(view_.out) + (row * stride + tile.col), stride, tile.rows - 64 * group_,
                         view_.k - tile.col);
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

  __device__ void release(int stage) {
    if (threadIdx.x % 128 == 0) arrive(shared_.empty[stage]);
  }

  // Rows that do not exist.
  __device__ void skip(const GroupedTile& tile) {
    for (int step = 0; step < steps_of(tile); ++step, stage_.advance()) {
      wait(shared_.full[stage_.index], stage_.parity);
      release(stage_.index);
    }
  }

  __device__ __forceinline__ void multiply_tile(const GroupedTile& tile) {
#pragma unroll
    for (int i = 0; i < 128; ++i) sums_[i] = 0;
    int before = 0, step = 0;
    do {
      wait(shared_.full[stage_.index], stage_.parity);
      if constexpr (product == Product::dw) {
        if (const int left = tile.depth - step * grouped::depth; left < grouped::depth) clear_from(left);
      }
      const std::uint32_t a = operand(shared_address(shared_.a[stage_.index]) +
                                      static_cast<std::uint32_t>(grouped::half_bytes * group_)),
                          b = operand(shared_address(shared_.b[stage_.index]), of_b == Along::sides ? grouped::half_bytes : 16);
      begin_products();
      unrolled<grouped::depth / 16>([&](auto part) {
        constexpr int k = decltype(part)::value;
        multiply(T{}, sums_, a, b, DescriptorOffsets<k * a_step, k * b_step, of_a, of_b, true>{});
      });
      end_group();
      wait_for_groups_but<1>();
      if (step > 0) release(before);
      before = stage_.index;
      stage_.advance();
    } while (++step < steps_of(tile));
    wait_for_groups_but<0>();
    release(before);
  }

  // The rows after an expert's last one are another expert's: zeros replace them, so that no infinity of theirs counts. Both
  // groups clear the boxes that they share; each waits for its own zeros alone.
  __device__ void clear_from(int row) {
    constexpr int pieces = grouped::box_row_bytes / 16, boxes = 5, group = 128;
    for (int i = static_cast<int>(threadIdx.x) % group; i < (64 - row) * boxes * pieces; i += group) {
      const int box = i / pieces % boxes, at = (row + i / (boxes * pieces)) * grouped::box_row_bytes + i % pieces * 16;
      char* const cleared = box == 0 ? shared_.a[stage_.index] + group_ * grouped::half_bytes
                                     : shared_.b[stage_.index] + (box - 1) * grouped::half_bytes;
      *reinterpret_cast<uint4*>(cleared + at) = uint4{};
    }
    publish_shared();
    sync_at(1 + group_, group);
  }

  // The part of an expert's gradient that no row adds to.
  __device__ void store_zeros(const GroupedTile& tile) {
    constexpr int pieces = grouped::cols / 4, groups = 256;
    float* const out =
        static_cast<float*>(view_.out) + (static_cast<std::int64_t>(tile.expert) * view_.n + tile.row) * view_.k + tile.col;
    for (int i = static_cast<int>(threadIdx.x); i < grouped::rows * pieces; i += groups) {
      const int row = i / pieces, col = i % pieces * 4;
      if (row < tile.rows && tile.col + col < view_.k)
        *reinterpret_cast<float4*>(out + static_cast<std::int64_t>(row) * view_.k + col) = float4{};
    }
  }

  __device__ __forceinline__ void store(const GroupedTile& tile) {
    const int own_row = tile.row + 64 * group_, limit = tile.rows - 64 * group_, cols = tiles_.result_cols() - tile.col;
    const std::int64_t stride = tiles_.result_cols();
    if constexpr (product == Product::y) add_bias(tile);
    store_rounded(sums_, static_cast<T*>(view_.out) + own_row * stride + tile.col, stride, limit, cols);
  }

  // Layout of the sums: wgmma.cuh.
  __device__ __forceinline__ void add_bias(const GroupedTile& tile) {
    if (view_.bias == nullptr) return;
    const int lane = static_cast<int>(threadIdx.x) % 32,
              row = 64 * group_ + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
    const auto weight = [&](int at) {
      return view_.weights == nullptr ? 1.0F : at < tile.rows ? view_.weights[tile.row + at] : 0.0F;
    };
    const float upper = weight(row), lower = weight(row + 8);
    const T* const bias =
        static_cast<const T*>(view_.bias) + static_cast<std::int64_t>(tile.expert) * view_.n + tile.col + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      if (tile.col + 8 * j >= view_.n) continue;
      const float2 pair = unpack<T>(*reinterpret_cast<const std::uint32_t*>(bias + 8 * j));
      sums_[4 * j] += upper * pair.x, sums_[4 * j + 1] += upper * pair.y;
      sums_[4 * j + 2] += lower * pair.x, sums_[4 * j + 3] += lower * pair.y;
    }
  }

  const GroupedView& view_;
  const GroupedTiles<product>& tiles_;
  GroupedShared& shared_;
  int group_;
  Stage stage_;
  float sums_[128];
};

template <Product product, class T>
__global__ void __launch_bounds__(grouped::threads, 1)
    grouped_kernel(const __grid_constant__ GroupedView view, const __grid_constant__ GroupedMaps maps) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<GroupedShared*>(memory);
  if (threadIdx.x == 0) {
    for (Barrier& full : shared.full) make_barrier(full, 1);
    for (Barrier& empty : shared.empty) make_barrier(empty, 2);
    for (Barrier& taken : shared.taken) make_barrier(taken, 1);
    for (Barrier& begun : shared.begun) make_barrier(begun, 8);
    publish_barriers();
  }
  wait_for_previous();
  const GroupedTiles<product> tiles(view, reinterpret_cast<int*>(memory + sizeof(GroupedShared)));
  // Makes the value uniform over the warp, which the compiler cannot prove by itself.
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 8 && threadIdx.x % 32 == 0) load_tiles<product>(view, maps, tiles, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    Multiplier<product, T>(view, tiles, shared, warp / 4).run();
  }
}

template <Product product, class T>
void launch_grouped(cudaStream_t stream, const GroupedView& view, const GroupedMaps& maps, const HopperGpu& gpu) {
  const auto kernel = grouped_kernel<product, T>;
  const std::size_t bytes = sizeof(GroupedShared) + row_tiles_bytes(view.experts);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  launch(stream, kernel, static_cast<unsigned>(gpu.multiprocessors), grouped::threads, bytes, view, maps);
}

template <class Body>
void with_half(DType dtype, const Body& body) {
  dtype == DType::bf16 ? body(Type<__nv_bfloat16>{}) : body(Type<__half>{});
}

RowMajor matrix_of(const Tensor& tensor) { return {tensor.data, tensor.cols(), tensor.rows()}; }

constexpr std::int64_t most_experts = 1024;  // whose table of tiles fits beside the buffers
static_assert(sizeof(GroupedShared) + row_tiles_bytes(most_experts) <= 227 * 1024);

bool takes_operands(const Tensor& a, const Tensor& b, const Tensor& out, const Tensor& offsets) {
  const bool half = a.dtype == b.dtype && (a.dtype == DType::bf16 || a.dtype == DType::f16);
  const auto in_vectors = [](const Tensor& x) { return x.cols() > 0 && x.cols() % 8 == 0 && aligned16(x.data); };
  return half && in_vectors(a) && in_vectors(b) && in_vectors(out) && a.rows() > 0 && offsets.elements() <= most_experts &&
         std::max({a.rows(), b.rows(), out.rows()}) < std::int64_t{1} << 31;
}

int rows_of_expert(const Tensor& w, const Tensor& offsets) { return static_cast<int>(w.rows() / (offsets.elements() - 1)); }

}  // namespace
}  // namespace hopper

bool takes_hopper_grouped(const GroupedMatmulArgs& args, const HopperGpu& gpu) {
  return gpu.available && args.out.dtype == args.in.dtype && hopper::takes_operands(args.in, args.w, args.out, args.offsets) &&
         (args.kind == MatmulKind::forward || hopper::rows_of_expert(args.w, args.offsets) % hopper::grouped::depth == 0);
}

bool takes_hopper_grouped(const GroupedWeightGradArgs& args, const HopperGpu& gpu) {
  return gpu.available && hopper::takes_operands(args.dy, args.x, args.dw, args.offsets);
}

bool adds_bias_in_hopper(const GroupedMatmulArgs& args) {
  const Tensor& bias = args.bias->bias;
  return args.kind == MatmulKind::forward && bias.dtype == args.out.dtype && bias.elements() == args.w.rows() &&
         args.bias->first_column == 0 && aligned16(bias.data);
}

void hopper_grouped_matmul(cudaStream_t stream, const GroupedMatmulArgs& args, const HopperGpu& gpu, int* tickets) {
  using namespace hopper;
  const bool forward = args.kind == MatmulKind::forward, adds_bias = args.bias && adds_bias_in_hopper(args);
  const GroupedView view{
      .offsets = data_of<int>(args.offsets),
      .experts = static_cast<int>(args.offsets.elements() - 1),
      .n = rows_of_expert(args.w, args.offsets),
      .k = static_cast<int>(args.w.cols()),
      .out = args.out.data,
      .adds = false,
      .tickets = tickets,
      .bias = adds_bias ? args.bias->bias.data : nullptr,
      .weights = adds_bias && args.bias->weights.shape.rank() > 0 ? data_of<float>(args.bias->weights) : nullptr};
  with_half(args.in.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const GroupedMaps maps{box_map<T>(matrix_of(args.in), 64), box_map<T>(matrix_of(args.w), forward ? grouped::cols : 64)};
    forward ? launch_grouped<Product::y, T>(stream, view, maps, gpu) : launch_grouped<Product::dx, T>(stream, view, maps, gpu);
  });
}

void hopper_grouped_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args, const HopperGpu& gpu, int* tickets) {
  using namespace hopper;
  const GroupedView view{.offsets = data_of<int>(args.offsets),
                         .experts = static_cast<int>(args.offsets.elements() - 1),
                         .n = rows_of_expert(args.dw, args.offsets),
                         .k = static_cast<int>(args.dw.cols()),
                         .out = args.dw.data,
                         .adds = args.accumulate == Accumulate::yes,
                         .tickets = tickets};
  with_half(args.dy.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const GroupedMaps maps{box_map<T>(matrix_of(args.dy), 64), box_map<T>(matrix_of(args.x), 64)};
    launch_grouped<Product::dw, T>(stream, view, maps, gpu);
  });
}

}  // namespace pipetrain::cuda
