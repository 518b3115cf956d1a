#include <cuda_fp8.h>

#include <initializer_list>

#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int wide = 8;  // elements that a thread writes at once, where runs and memory allow it

// The slice and its place in the logical matrix; see QuantisedLayout.
struct Slice {
  WeightForm form;
  std::int64_t first, length, stride, blocks_of_run, columns, fp8_columns, elements;
  bool is_one_run;
  const std::uint8_t *codes, *scale_codes;
  const float *scales, *tables;
};

Slice slice_of(const QuantisedMatrix& matrix) {
  const QuantisedLayout& layout = matrix.layout;
  const SliceRuns& runs = layout.runs;
  return {.form = layout.form,
          .first = runs.first,
          .length = runs.length,
          .stride = runs.stride,
          .blocks_of_run = is_nf4(layout.form) ? layout.blocks_of_run() : 0,
          .columns = layout.full[1],
          .fp8_columns = layout.fp8_columns(),
          .elements = runs.elements(),
          .is_one_run = runs.runs == 1,
          .codes = matrix.codes(),
          .scale_codes = matrix.scale_codes(),
          .scales = matrix.scales(),
          .tables = matrix.tables()};
}

// The place of an element: its run, and its number in the run.
struct RunPlace {
  std::int64_t run, at;
};
__device__ RunPlace place_of(const Slice& slice, std::int64_t element) {
  if (slice.is_one_run) return {0, element};
  const std::int64_t run = element / slice.length;
  return {run, element - run * slice.length};
}

// The levels and the values of a scale's code, in shared memory.
struct Tables {
  float levels[nf4_levels], map[nf4_scale_map];
};

__device__ void load_tables(const Slice& slice, Tables& tables) {
  if (threadIdx.x < nf4_levels) tables.levels[threadIdx.x] = slice.tables[threadIdx.x];
  if (slice.form == WeightForm::nf4) {
    for (int i = static_cast<int>(threadIdx.x); i < nf4_scale_map; i += threads) tables.map[i] = slice.tables[nf4_levels + i];
  }
  __syncthreads();
}

__device__ float nf4_scale(const Slice& slice, const Tables& tables, const RunPlace& place) {
  const std::int64_t block = (slice.first % nf4_block + place.at) / nf4_block,
                     touched = place.run * slice.blocks_of_run + block;
  if (slice.form == WeightForm::nf4_scales) return slice.scales[touched];
  const std::int64_t group = ((slice.first + place.run * slice.stride) / nf4_block + block) / nf4_scale_group;
  // The product is rounded before the mean is added, as on all devices.
  return __fadd_rn(__fmul_rn(tables.map[slice.scale_codes[touched]], slice.scales[group]),
                   slice.tables[nf4_levels + nf4_scale_map]);
}

__device__ float fp8_scale(const Slice& slice, const RunPlace& place) {
  const std::int64_t at = slice.first + place.run * slice.stride + place.at, row = at / slice.columns;
  return slice.scales[row / fp8_block * slice.fp8_columns + (at - row * slice.columns) / fp8_block];
}

__device__ float from_e4m3(std::uint8_t bits) {
  const __half_raw raw = __nv_cvt_fp8_to_halfraw(bits, __NV_E4M3);  // exact
  return __half2float(__half(raw));
}

// Writes W elements that share a scale; W is even, or 1.
template <class T, int W>
__global__ void nf4_kernel(Slice slice, T* out) {
  wait_for_previous();
  __shared__ Tables tables;
  load_tables(slice, tables);
  const std::int64_t packs = slice.elements / W, step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; pack < packs; pack += step) {
    const float scale = nf4_scale(slice, tables, place_of(slice, pack * W));
    float values[W];
    if constexpr (W == 1) {
      const unsigned pair = slice.codes[pack / 2];
      values[0] = __fmul_rn(tables.levels[pack % 2 == 0 ? pair >> 4 : pair & 0xfU], scale);
    } else {
      static_assert(W == 8);
      const unsigned word = reinterpret_cast<const unsigned*>(slice.codes)[pack];
#pragma unroll
      for (int i = 0; i < W; ++i)  // the first of two elements is in the high half of its byte
        values[i] = __fmul_rn(tables.levels[word >> (i / 2 * 8 + (i % 2 == 0 ? 4 : 0)) & 0xfU], scale);
    }
    store(out, pack, values);
  }
}

template <class T, int W>
__global__ void fp8_kernel(Slice slice, T* out) {
  wait_for_previous();
  const std::int64_t packs = slice.elements / W, step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; pack < packs; pack += step) {
    const float scale = fp8_scale(slice, place_of(slice, pack * W));
    const auto codes = reinterpret_cast<const Pack<std::uint8_t, W>*>(slice.codes)[pack];
    float values[W];
#pragma unroll
    for (int i = 0; i < W; ++i) values[i] = __fmul_rn(from_e4m3(codes.at[i]), scale);
    store(out, pack, values);
  }
}

template <class T>
__global__ void widen_kernel(const bf16* from, T* out, std::int64_t elements) {
  wait_for_previous();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (at < elements) out[at] = from_float<T>(to_float(from[at]));
}

// True when `wide` neighbours that are written together always share a scale.
bool share_scales(const Slice& slice) {
  const auto fits = [](std::int64_t unit, std::initializer_list<std::int64_t> counts) {
    for (const std::int64_t count : counts) {
      if (count % unit != 0) return false;
    }
    return true;
  };
  if (is_nf4(slice.form)) return fits(wide, {slice.first, slice.elements, slice.is_one_run ? 0 : slice.length});
  return fits(wide, {slice.first, slice.elements, slice.columns, slice.is_one_run ? 0 : slice.length});
}

template <class T>
void dequantise_to(cudaStream_t stream, const Slice& slice, T* out) {
  const bool packs = share_scales(slice) && aligned16(out);
  const std::int64_t work = packs ? slice.elements / wide : slice.elements;
  // A block reads its tables once and then writes several packs.
  const unsigned blocks = blocks_for(work, threads * 4);
  if (slice.form == WeightForm::bf16) {
    launch(stream, widen_kernel<T>, blocks_for(slice.elements, threads), threads, 0, reinterpret_cast<const bf16*>(slice.codes),
           out, slice.elements);
  } else if (slice.form == WeightForm::fp8) {
    launch(stream, packs ? fp8_kernel<T, wide> : fp8_kernel<T, 1>, blocks, threads, 0, slice, out);
  } else {
    launch(stream, packs ? nf4_kernel<T, wide> : nf4_kernel<T, 1>, blocks, threads, 0, slice, out);
  }
}

}  // namespace

void dequantise(cudaStream_t stream, const DequantiseArgs& args) {
  const Slice slice = slice_of(args.matrix);
  if (slice.elements == 0) return;
  with_type(args.out.dtype, "dequantise", [&](auto type) {
    using T = typename decltype(type)::type;
    dequantise_to(stream, slice, data_of<T>(args.out));
  });
}

}  // namespace pipetrain::cuda
