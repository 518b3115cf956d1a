#include "ops/cuda/hopper/grouped_fp8.hpp"

#include <algorithm>

#include "ops/cuda/hopper/box_map.hpp"
#include "ops/cuda/hopper/grouped_pipeline.cuh"
#include "ops/cuda/hopper/grouped_results.cuh"
#include "ops/cuda/hopper/wgmma_fp8.cuh"
#include "ops/cuda/launch.hpp"

namespace pipetrain::cuda {
namespace hopper {
namespace {

constexpr int fp8_depth = 128;  // the numbers of a box's row

// The forward and the input gradient are one product: rows times the transpose of a matrix [n, k] of each expert, which begins
// in the matrix of all experts at column matrix_x and row matrix_y times the expert's index.
struct GroupedFp8View {
  GroupedView base;
  const float *in_scale, *w_scale;
  int matrix_x, matrix_y;
};

using Fp8Tiles = GroupedTiles<Product::y>;

__device__ int fp8_steps_of(const GroupedTile& tile) { return (tile.depth + fp8_depth - 1) / fp8_depth; }

// A box reads zeros beyond the depth of `a`, so it does not matter that `b` may go on there with the next expert's numbers:
// these share the scale with the expert's own, and are NaN only if all are.
__device__ void load_fp8_tiles(const GroupedFp8View& view, const GroupedMaps& maps, const Fp8Tiles& tiles,
                               GroupedShared& shared) {
  hand_out_tiles(view.base.tickets, tiles.count(), shared, [&](int index, Stage& stage) {
    const GroupedTile tile = tiles.at(index);
    const int x = tile.expert * view.matrix_x, y = tile.expert * view.matrix_y + tile.col;
    for (int step = 0; step < fp8_steps_of(tile); ++step, stage.advance()) {
      const int depth = step * fp8_depth;
      Barrier& full = begin_load(shared, stage, step_bytes(tile));
      char* const a = shared.a[stage.index];
      load_box(a, maps.a, depth, tile.row, full);
      if (tile.rows > 64) load_box(a + grouped::half_bytes, maps.a, depth, tile.row + 64, full);
      load_box(shared.b[stage.index], maps.b, x + depth, y, full);
    }
  });
}

// The units for products of 8 bits keep about 14 bits of a sum. So a product sums over 128 numbers alone, and is then added to
// the tile's sums in fp32, half of its columns after the other. While a group adds, the other one multiplies.
template <class InType>
class Fp8Multiplier : TileReader<GroupedShared> {
 public:
  __device__ Fp8Multiplier(const GroupedFp8View& view, const Fp8Tiles& tiles, GroupedShared& shared, int group)
      : TileReader(shared, group), view_(view), tiles_(tiles) {}

  __device__ void run() {
    for_each_tile(tiles_, [&](const GroupedTile& tile) {
      if (tile.rows <= 64 * group_) {
        skip(fp8_steps_of(tile));
      } else {
        multiply_tile(tile);
        store(tile);
      }
    });
  }

 private:
  __device__ __forceinline__ void multiply_tile(const GroupedTile& tile) {
#pragma unroll
    for (int i = 0; i < 128; ++i) sums_[i] = 0;
    for (int step = 0; step < fp8_steps_of(tile); ++step, stage_.advance()) {
      wait(shared_.full[stage_.index], stage_.parity);
      const std::uint32_t a = operand(shared_address(shared_.a[stage_.index]) +
                                      static_cast<std::uint32_t>(grouped::half_bytes * group_)),
                          b = operand(shared_address(shared_.b[stage_.index]));
      float product[64];
      multiply_half<0>(product, a, b);
      add_half<0>(product);
      multiply_half<1>(product, a, b);
      release(stage_.index);
      add_half<1>(product);
    }
  }

  // Multiplies with half of the columns. Returns when the product is complete.
  template <int half>
  __device__ __forceinline__ void multiply_half(float (&product)[64], std::uint32_t a, std::uint32_t b) {
    constexpr int columns_at = half * 2 * grouped::half_bytes;
    begin_products();
    unrolled<fp8_depth / 32>([&](auto part) {
      constexpr int k = decltype(part)::value;
      multiply(InType{}, product, a, b, Fp8Offsets<32 * k, columns_at + 32 * k, (k > 0)>{});
    });
    end_group();
    wait_for_groups_but<0>();
  }

  template <int half>
  __device__ __forceinline__ void add_half(const float (&product)[64]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) sums_[64 * half + i] += product[i];
  }

  __device__ __forceinline__ void store(const GroupedTile& tile) {
    const float scale = *view_.in_scale * *view_.w_scale;
#pragma unroll
    for (int i = 0; i < 128; ++i) sums_[i] *= scale;
    add_bias<__nv_bfloat16>(sums_, view_.base, tile, group_);
    const std::int64_t stride = view_.base.n, row = tile.row + 64 * group_;
    store_rounded(sums_, static_cast<__nv_bfloat16*>(view_.base.out) + row * stride + tile.col, stride, tile.rows - 64 * group_,
                  view_.base.n - tile.col);
  }

  const GroupedFp8View& view_;
  const Fp8Tiles& tiles_;
  float sums_[128];
};

template <class InType>
__global__ void __launch_bounds__(grouped::threads, 1)
    grouped_fp8_kernel(const __grid_constant__ GroupedFp8View view, const __grid_constant__ GroupedMaps maps) {
  extern __shared__ __align__(1024) char memory[];
  auto& shared = *reinterpret_cast<GroupedShared*>(memory);
  make_grouped_barriers(shared);
  wait_for_previous();
  const Fp8Tiles tiles(view.base, reinterpret_cast<int*>(memory + sizeof(GroupedShared)));
  // Makes the value uniform over the warp, which the compiler cannot prove by itself.
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp >= 8) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == 8 && threadIdx.x % 32 == 0) load_fp8_tiles(view, maps, tiles, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    Fp8Multiplier<InType>(view, tiles, shared, warp / 4).run();
  }
}

constexpr std::int64_t most_experts = 1024;  // whose table of tiles fits beside the buffers
static_assert(sizeof(GroupedShared) + row_tiles_bytes(most_experts) <= 227 * 1024);

RowMajor matrix_of(const Tensor& tensor) { return {tensor.data, tensor.cols(), tensor.rows()}; }

bool takes_operand(const Tensor& x) { return x.cols() > 0 && x.cols() % fp8_multiple == 0 && aligned16(x.data); }

}  // namespace
}  // namespace hopper

bool takes_hopper_grouped(const GroupedFp8MatmulArgs& args, const HopperGpu& gpu) {
  const Tensor &in = args.in.values, &w = args.w.values;
  const auto of_tensor = [](const Fp8Operand& operand) { return operand.scales == Fp8Scales::tensor; };
  return gpu.available && of_tensor(args.in) && of_tensor(args.w) && w.dtype == DType::e4m3 && args.out.dtype == DType::bf16 &&
         hopper::takes_operand(in) && hopper::takes_operand(w) && args.out.cols() % 8 == 0 && aligned16(args.out.data) &&
         in.rows() > 0 && args.offsets.elements() <= hopper::most_experts &&
         std::max({in.rows(), w.rows(), w.cols(), args.out.rows()}) < std::int64_t{1} << 31;
}

bool adds_bias_in_hopper(const GroupedFp8MatmulArgs& args) {
  const Tensor& bias = args.bias->bias;
  return args.kind == MatmulKind::forward && bias.dtype == args.out.dtype && bias.elements() == args.w.values.rows() &&
         args.bias->first_column == 0 && aligned16(bias.data);
}

void hopper_grouped_fp8_matmul(cudaStream_t stream, const GroupedFp8MatmulArgs& args, const HopperGpu& gpu, int* tickets) {
  using namespace hopper;
  const int n = static_cast<int>(args.out.cols()), k = static_cast<int>(args.in.values.cols());
  const bool forward = args.kind == MatmulKind::forward, adds_bias = args.bias && adds_bias_in_hopper(args);
  const bool weighs_bias = adds_bias && args.bias->weights.shape.rank() > 0;
  const GroupedFp8View view{.base = {.offsets = data_of<int>(args.offsets),
                                     .experts = static_cast<int>(args.offsets.elements() - 1),
                                     .n = n,
                                     .k = k,
                                     .out = args.out.data,
                                     .tickets = tickets,
                                     .bias = adds_bias ? args.bias->bias.data : nullptr,
                                     .weights = weighs_bias ? data_of<float>(args.bias->weights) : nullptr},
                            .in_scale = data_of<float>(args.in.scale),
                            .w_scale = data_of<float>(args.w.scale),
                            .matrix_x = forward ? 0 : k,
                            .matrix_y = forward ? n : 0};
  const GroupedMaps maps{box_map<std::uint8_t>(matrix_of(args.in.values), 64),
                         box_map<std::uint8_t>(matrix_of(args.w.values), grouped::cols)};
  const auto kernel =
      args.in.values.dtype == DType::e4m3 ? grouped_fp8_kernel<__nv_fp8_e4m3> : grouped_fp8_kernel<__nv_fp8_e5m2>;
  const std::size_t bytes = sizeof(GroupedShared) + row_tiles_bytes(view.base.experts);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  launch(stream, kernel, static_cast<unsigned>(gpu.multiprocessors), grouped::threads, bytes, view, maps);
}

}  // namespace pipetrain::cuda
