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

struct Maps {
  EightBitMap of[2] = {eight_bit_map(true), eight_bit_map(false)};
};
__constant__ constexpr Maps maps{};

struct Tables {
  float map[eight_bit_codes];
  EightBitSearch search;
};

__device__ void make_tables(Tables (&tables)[2]) {
  const int thread = static_cast<int>(threadIdx.x), moment = thread / static_cast<int>(eight_bit_codes),
            code = thread % static_cast<int>(eight_bit_codes);
  static_assert(threads == 2 * eight_bit_codes);
  tables[moment].map[code] = maps.of[moment][static_cast<std::size_t>(code)];
  __syncthreads();
  tables[moment].search.make_last(tables[moment].map, code);
  for (int bin = code; bin < 2 * EightBitSearch::bins; bin += static_cast<int>(eight_bit_codes))
    tables[moment].search.make_first(tables[moment].map, bin);
  __syncthreads();
}

struct EightBitView {
  float* weight;
  const float* grad;
  EightBitState moments[2];
  std::int64_t count;
  bool aligned;  // whole runs of every tensor are read and written at once
};

// The elements of one thread in one block of elements.
struct OwnElements {
  std::int64_t first;  // of the first run; the others follow at a distance of 32 runs
  bool whole;          // all of the block's elements exist, and are aligned

  __device__ OwnElements(const EightBitView& view, std::int64_t block)
      : first(block * eight_bit_block + threadIdx.x % 32 * run),
        whole(view.aligned && (block + 1) * eight_bit_block <= view.count) {}
  __device__ std::int64_t at(int i) const { return first + i / run * (32 * run) + i % run; }

  template <class T>
  __device__ void read(const T* from, std::int64_t count, T (&to)[own]) const {
    using Run = Pack<T, run>;
#pragma unroll
    for (int i = 0; i < own; i += run) {
      Run values{};
      if (whole) {
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
      if (whole) {
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

// Returns the smallest and the largest value of the block's elements, which are in all lanes of a warp; +0 for zeros of either
// sign, as the CPU does.
__device__ float2 extremes(const float (&values)[own], const OwnElements& elements, std::int64_t count) {
  float least = INFINITY, most = -INFINITY;
#pragma unroll
  for (int i = 0; i < own; ++i) {
    const bool has = elements.whole || elements.at(i) < count;
    least = fminf(least, has ? values[i] : INFINITY), most = fmaxf(most, has ? values[i] : -INFINITY);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    least = fminf(least, __shfl_xor_sync(~0U, least, distance));
    most = fmaxf(most, __shfl_xor_sync(~0U, most, distance));
  }
  return {least, most + 0.0F};
}

__device__ void write_moment(const EightBitView& view, int moment, const Tables& tables, std::int64_t block,
                             const OwnElements& elements, const float (&values)[own]) {
  const float2 ends = extremes(values, elements, view.count);
  const float magnitude = block_magnitude(tables.map, ends.x, ends.y);
  std::uint8_t codes[own];
#pragma unroll
  for (int i = 0; i < own; ++i) codes[i] = tables.search.code(magnitude > 0 ? __fdiv_rn(values[i], magnitude) : 0.0F);
  elements.write(codes, view.moments[moment].codes, view.count);
  if (threadIdx.x % 32 == 0) view.moments[moment].magnitudes[block] = magnitude;
}

template <class T>
__device__ void step_block(const EightBitView& view, const Tables (&tables)[2], std::int64_t block, T* rounded, bool is_preview,
                           const AdamWRule<DeviceMath>& rule) {
  const OwnElements elements(view, block);
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
#pragma unroll
  for (int i = 0; i < 2; ++i) write_moment(view, i, tables[i], block, elements, moments[i]);
}

// T: the type of the rounded copy, which may be null. A preview writes only that.
template <class T>
__global__ void __launch_bounds__(threads, blocks_each)
    eight_bit_kernel(EightBitView view, T* rounded, bool is_preview, AdamWRule<DeviceMath> rule) {
  __shared__ Tables tables[2];
  cudaTriggerProgrammaticLaunchCompletion();
  make_tables(tables);
  wait_for_previous();
  const std::int64_t blocks = ceil_div(view.count, eight_bit_block), stride = gridDim.x * warps;
  for (std::int64_t block = blockIdx.x * warps + threadIdx.x / 32; block < blocks; block += stride)
    step_block(view, tables, block, rounded, is_preview, rule);
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
    launch(stream, eight_bit_kernel<T>, grid, threads, 0, view, copy, args.preview, AdamWRule<DeviceMath>(args.rule));
  });
}

}  // namespace pipetrain::cuda
