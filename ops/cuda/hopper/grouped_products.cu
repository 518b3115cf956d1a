#include "ops/cuda/hopper/grouped_products.hpp"

#include <algorithm>

#include "ops/cuda/hopper/box_map.hpp"
#include "ops/cuda/hopper/grouped_pipeline.cuh"
#include "ops/cuda/hopper/grouped_results.cuh"
#include "ops/cuda/hopper/grouped_tiles.cuh"
#include "ops/cuda/hopper/wgmma.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda {
namespace hopper {
namespace {

__device__ int steps_of(const GroupedTile& tile) { return (tile.depth + grouped::depth - 1) / grouped::depth; }

template <Product product>
__device__ void load_tiles(const GroupedView& view, const GroupedMaps& maps, const GroupedTiles<product>& tiles,
                           GroupedShared& shared) {
  hand_out_tiles(view.tickets, tiles.count(), shared, [&](int index, Stage& stage) {
    const GroupedTile tile = tiles.at(index);
    for (int step = 0; step < steps_of(tile); ++step, stage.advance()) {
      Barrier& full = begin_load(shared, stage, step_bytes<product>(tile));
      load_step<product>(view, maps, tile, step * grouped::depth, shared.a[stage.index], shared.b[stage.index], full);
    }
  });
}

// Two groups of warps, each of which computes 64 rows of every tile.
template <Product product, class T>
class Multiplier : TileReader {
 public:
  __device__ Multiplier(const GroupedView& view, const GroupedTiles<product>& tiles, GroupedShared& shared, int group)
      : TileReader(shared, group), view_(view), tiles_(tiles) {}

  __device__ void run() {
    for_each_tile(tiles_, [&](const GroupedTile& tile) {
      if constexpr (product == Product::dw) {
        add_weights(tile);
      } else if (tile.rows <= 64 * group_) {
        skip(steps_of(tile));
      } else {
        multiply_tile(tile);
        store(tile);
      }
    });
  }

 private:
  static constexpr Along of_a = product == Product::dw ? Along::sides : Along::depth,
                         of_b = product == Product::y ? Along::depth : Along::sides;
  static constexpr int a_step = of_a == Along::depth ? 32 : 16 * grouped::box_row_bytes,
                       b_step = of_b == Along::depth ? 32 : 16 * grouped::box_row_bytes;

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
    if constexpr (product == Product::y) add_bias<T>(sums_, view_, tile, group_);
    store_rounded(sums_, static_cast<T*>(view_.out) + own_row * stride + tile.col, stride, limit, cols);
  }

  const GroupedView& view_;
  const GroupedTiles<product>& tiles_;
  float sums_[128];
};

template <Product product, class T>
__global__ void __launch_bounds__(grouped::threads, 1)
    grouped_kernel(const __grid_constant__ GroupedView view, const __grid_constant__ GroupedMaps maps) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<GroupedShared*>(memory);
  make_grouped_barriers(shared);
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
