// A warp steps a block of elements: each lane has two runs of four adjacent ones, so that a warp's accesses are whole lines.
#include <algorithm>

#include "ops/cuda/device_math.cuh"
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"
#include "ops/eight_bit_search.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 512, warps = threads / 32, blocks_each = 2;  // blocks_each: blocks of threads a multiprocessor
constexpr int run = 4, runs = static_cast<int>(eight_bit_block) / (32 * run), own = run * runs;  // own: elements of a thread

__device__ const EightBitSearch searches[] = {EightBitSearch(eight_bit_map(true)), EightBitSearch(eight_bit_map(false))};

// Copies the tables from global memory, where kernels before this one do not write.
__device__ void copy_tables(EightBitSearch (&tables)[2]) {
  using Word = std::uint32_t;
  static_assert(sizeof(tables) % sizeof(Word) == 0);
  const Word* from = reinterpret_cast<const Word*>(searches);
  for (std::size_t i = threadIdx.x; i < sizeof(tables) / sizeof(Word); i += threads)
    reinterpret_cast<Word*>(tables)[i] = from[i];
  __syncthreads();
}

// The rule's roots and quotients without branches, so that the compiler can interleave a thread's elements. They are what it
// makes of sqrtf() and of a division, less the branches for operands of extreme sizes: results are rounded likewise, except
// roots of values below 2^-126, which are under 2^-63, and quotients that are near the ends of fp32 or whose operands are.
struct StraightMath : DeviceMath {
  __device__ static float root(float value) {
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(fminf(fmaxf(value, 0x1p-126F), 0x1p127F)));
    const float root = value * inverse;
    return __fmaf_rn(__fmaf_rn(-root, root, value), 0.5F * inverse, root);
  }
  __device__ static float scaled_quotient(float factor, float dividend, float divisor) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
    // The compiler could fuse either this product or the decayed weight with their difference, and choose anew for each kernel.
    return __fmul_rn(factor, quotient(dividend, divisor, __fmaf_rn(__fmaf_rn(-divisor, inverse, 1.0F), inverse, inverse)));
  }
  // inverse: of the divisor, rounded by at most one unit.
  __device__ static float quotient(float dividend, float divisor, float inverse) {
    float quotient = dividend * inverse;
#pragma unroll
    for (int i = 0; i < 2; ++i) quotient = __fmaf_rn(__fmaf_rn(-divisor, quotient, dividend), inverse, quotient);
    return quotient;
  }
};

struct EightBitView {
  float* weight;
  const float* grad;
  EightBitState moments[2];
  std::int64_t count;
  bool aligned;  // whole runs of every tensor are read and written at once
};

// The elements of one thread in one block of elements. whole: all of the block's elements exist, and are aligned.
template <bool whole>
struct OwnElements {
  std::int64_t first;  // of the first run; the others follow at a distance of 32 runs

  __device__ explicit OwnElements(std::int64_t block) : first(block * eight_bit_block + threadIdx.x % 32 * run) {}
  __device__ std::int64_t at(int i) const { return first + i / run * (32 * run) + i % run; }

  template <class T>
  __device__ void read(const T* from, std::int64_t count, T (&to)[own]) const {
    using Run = Pack<T, run>;
#pragma unroll
    for (int i = 0; i < own; i += run) {
      Run values{};
      if constexpr (whole) {
        values = *reinterpret_cast<const Run*>(from + at(i));
      } else {
#pragma unroll
        for (int j = 0; j < run; ++j)
          if (at(i + j) < count) values.at[j] = from[at(i + j)];
      }
#pragma unroll
      for (int j = 0; j < run; ++j) to[i + j] = values.at[j];
    }
  }

  template <class T>
  __device__ void write(const T (&from)[own], T* to, std::int64_t count) const {
    using Run = Pack<T, run>;
#pragma unroll
    for (int i = 0; i < own; i += run) {
      if constexpr (whole) {
        Run values;
#pragma unroll
        for (int j = 0; j < run; ++j) values.at[j] = from[i + j];
        *reinterpret_cast<Run*>(to + at(i)) = values;
      } else {
#pragma unroll
        for (int j = 0; j < run; ++j)
          if (at(i + j) < count) to[at(i + j)] = from[i + j];
      }
    }
  }
};

// Signed integers that are ordered as floats are, but for zeros; and back.
__device__ int order_of(float value) {
  const int bits = __float_as_int(value);
  return bits ^ (bits >> 31 & 0x7fffffff);
}
__device__ float ordered(int order) { return __int_as_float(order ^ (order >> 31 & 0x7fffffff)); }

// Returns the magnitude of a block, whose elements are in all lanes of a warp; the same for zeros of either sign, as on the
// CPU.
template <bool has_signs, bool whole>
__device__ float magnitude_of(const EightBitSearch& table, const float (&values)[own], const OwnElements<whole>& elements,
                              std::int64_t count) {
  float least = 0, most = has_signs ? -INFINITY : 0;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const bool has = whole || elements.at(i) < count;
    if (has_signs) least = fminf(least, has ? values[i] : INFINITY);
    most = fmaxf(most, has ? values[i] : -INFINITY);
  }
  most = ordered(__reduce_max_sync(~0U, order_of(most))) + 0.0F;
  if (has_signs) least = ordered(__reduce_min_sync(~0U, order_of(least)));
  return block_magnitude(table.map.data(), least, most);
}

template <int moment, bool whole>
__device__ void write_moment(const EightBitView& view, const EightBitSearch& table, std::int64_t block,
                             const OwnElements<whole>& elements, const float (&values)[own]) {
  const float magnitude = magnitude_of<moment == 0>(table, values, elements, view.count);
  // Powers of two keep the steps of the division between the ends of fp32. A block of zeros is divided by one.
  const float scale = magnitude < 0x1p-60F ? 0x1p60F : magnitude > 0x1p60F ? 0x1p-60F : 1.0F;
  const float divisor = magnitude > 0 ? magnitude * scale : 1.0F, inverse = __frcp_rn(divisor);
  std::uint8_t codes[own];
#pragma unroll
  for (int i = 0; i < own; ++i) codes[i] = table.code_of_number(StraightMath::quotient(values[i] * scale, divisor, inverse));
  elements.write(codes, view.moments[moment].codes, view.count);
  if (threadIdx.x % 32 == 0) view.moments[moment].magnitudes[block] = magnitude;
}

template <bool whole, class T>
__device__ void step_block(const EightBitView& view, const EightBitSearch (&tables)[2], std::int64_t block, T* rounded,
                           bool is_preview, const AdamWRule<StraightMath>& rule) {
  const OwnElements<whole> elements(block);
  float weight[own], grad[own], moments[2][own], magnitudes[2];
  std::uint8_t codes[2][own];
  elements.read(view.weight, view.count, weight);
  elements.read(view.grad, view.count, grad);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    elements.read(view.moments[i].codes, view.count, codes[i]);
    magnitudes[i] = view.moments[i].magnitudes[block];
  }
#pragma unroll
  for (int i = 0; i < own; ++i) {
#pragma unroll
    for (int j = 0; j < 2; ++j) moments[j][i] = __fmul_rn(tables[j].map[codes[j][i]], magnitudes[j]);
    weight[i] = rule(weight[i], grad[i], moments[0][i], moments[1][i]);
  }
  if (!is_preview) elements.write(weight, view.weight, view.count);
  if (rounded != nullptr) {
    T copies[own];
#pragma unroll
    for (int i = 0; i < own; ++i) copies[i] = from_float<T>(weight[i]);
    elements.write(copies, rounded, view.count);
  }
  if (is_preview) return;
  write_moment<0>(view, tables[0], block, elements, moments[0]);
  write_moment<1>(view, tables[1], block, elements, moments[1]);
}

// T: the type of the rounded copy, which may be null. A preview writes only that.
template <class T>
__global__ void __launch_bounds__(threads, blocks_each)
    eight_bit_kernel(EightBitView view, T* rounded, bool is_preview, AdamWRule<StraightMath> rule) {
  __shared__ __align__(16) unsigned char memory[2 * sizeof(EightBitSearch)];
  auto& tables = *reinterpret_cast<EightBitSearch(*)[2]>(memory);
  cudaTriggerProgrammaticLaunchCompletion();
  copy_tables(tables);
  wait_for_previous();
  const std::int64_t blocks = ceil_div(view.count, eight_bit_block), stride = gridDim.x * warps;
  for (std::int64_t block = blockIdx.x * warps + threadIdx.x / 32; block < blocks; block += stride)
    if (view.aligned && (block + 1) * eight_bit_block <= view.count)
      step_block<true>(view, tables, block, rounded, is_preview, rule);
    else
      step_block<false>(view, tables, block, rounded, is_preview, rule);
}

template <class T>
bool aligned_for_runs(const T* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (run * sizeof(T)) == 0;
}

int multiprocessors() {
  int device = 0, count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

}  // namespace

void eight_bit_update(cudaStream_t stream, const EightBitUpdateArgs& args) {
  const std::int64_t count = args.weight.elements();
  if (count == 0) return;
  EightBitView view{data_of<float>(args.weight), data_of<float>(args.grad), {args.states[0], args.states[1]}, count, false};
  with_type(args.rounded ? args.rounded->dtype : DType::f32, "rounded weights", [&](auto t) {
    using T = typename decltype(t)::type;
    T* copy = args.rounded ? data_of<T>(*args.rounded) : nullptr;
    view.aligned = aligned_for_runs(view.weight) && aligned_for_runs(view.grad) && aligned_for_runs(copy) &&
                   aligned_for_runs(view.moments[0].codes) && aligned_for_runs(view.moments[1].codes);
    const auto grid =
        std::min(blocks_for(count, eight_bit_block * warps), static_cast<unsigned>(blocks_each * multiprocessors()));
    launch(stream, eight_bit_kernel<T>, grid, threads, 0, view, copy, args.preview, AdamWRule<StraightMath>(args.rule));
  });
}

}  // namespace pipetrain::cuda
