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
      Barrier& full = begin_load(shared, stage, step_bytes(tile));
      load_step<product>(view, maps, tile, step * grouped::depth, shared.a[stage.index], shared.b[stage.index], full);
    }
  });
}

// Two groups of warps, each of which computes 64 rows of every tile.
template <Product product, class T>
class Multiplier : TileReader<GroupedShared> {
 public:
  __device__ Multiplier(const GroupedView& view, const GroupedTiles<product>& tiles, GroupedShared& shared, int group)
      : TileReader(shared, group), view_(view), tiles_(tiles) {}

  __device__ void run() {
    for_each_tile(tiles_, [&](const GroupedTile& tile) {
      if (tile.rows <= 64 * group_) {
        skip(steps_of(tile));
      } else {
        multiply_tile(tile);
        store(tile);
      }
    });
  }

 private:
  static constexpr Along of_b = product == Product::y ? Along::depth : Along::sides;
  static constexpr int a_step = 32, b_step = of_b == Along::depth ? 32 : 16 * grouped::box_row_bytes;

  __device__ __forceinline__ void multiply_tile(const GroupedTile& tile) {
#pragma unroll
    for (int i = 0; i < 128; ++i) sums_[i] = 0;
    multiply_steps(steps_of(tile), [&](int) {
      const std::uint32_t a = operand(shared_address(shared_.a[stage_.index]) +
                                      static_cast<std::uint32_t>(grouped::half_bytes * group_)),
                          b = operand(shared_address(shared_.b[stage_.index]), of_b == Along::sides ? grouped::half_bytes : 16);
      begin_products();
      unrolled<grouped::depth / 16>([&](auto part) {
        constexpr int k = decltype(part)::value;
        multiply(T{}, sums_, a, b, DescriptorOffsets<k * a_step, k * b_step, Along::depth, of_b, true>{});
      });
    });
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

int rows_of_expert(const Tensor& w, const Tensor& offsets) { return static_cast<int>(w.rows() / (offsets.elements() - 1)); }

}  // namespace

bool takes_operands(const Tensor& a, const Tensor& b, const Tensor& out, const Tensor& offsets) {
  const bool half = a.dtype == b.dtype && (a.dtype == DType::bf16 || a.dtype == DType::f16);
  const auto in_vectors = [](const Tensor& x) { return x.cols() > 0 && x.cols() % 8 == 0 && aligned16(x.data); };
  return half && in_vectors(a) && in_vectors(b) && in_vectors(out) && a.rows() > 0 && offsets.elements() <= most_experts &&
         std::max({a.rows(), b.rows(), out.rows()}) < std::int64_t{1} << 31;
}

}  // namespace hopper

bool takes_hopper_grouped(const GroupedMatmulArgs& args, const HopperGpu& gpu) {
  return gpu.available && args.out.dtype == args.in.dtype && hopper::takes_operands(args.in, args.w, args.out, args.offsets) &&
         (args.kind == MatmulKind::forward || hopper::rows_of_expert(args.w, args.offsets) % hopper::grouped::depth == 0);
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
      .tickets = tickets,
      .bias = adds_bias ? args.bias->bias.data : nullptr,
      .weights = adds_bias && args.bias->weights.shape.rank() > 0 ? data_of<float>(args.bias->weights) : nullptr};
  with_half(args.in.dtype, [&](auto t) {
    using T = typename decltype(t)::type;
    const GroupedMaps maps{box_map<T>(matrix_of(args.in), 64), box_map<T>(matrix_of(args.w), forward ? grouped::cols : 64)};
    forward ? launch_grouped<Product::y, T>(stream, view, maps, gpu) : launch_grouped<Product::dx, T>(stream, view, maps, gpu);
  });
}

}  // namespace pipetrain::cuda
