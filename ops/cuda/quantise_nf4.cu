// Matrices drawn and quantised to nf4 on the GPU. The host's code (model/quantisation/nf4.cpp, ops/normal_draw.hpp) gives the
// same bits: this file is compiled without fused products and sums, and adds in the same order.
#include "ops/cuda/kernels.hpp"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"
#include "ops/normal_draw.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int threads = 256;
constexpr int warp = 32;
static_assert(nf4_scale_group == threads && nf4_scale_map == threads);

// One thread draws a block of Philox.
__global__ void draw_normals_kernel(NormalDraw draw, std::uint64_t first_block, float* out, std::int64_t count) {
  wait_for_previous();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  constexpr auto own = static_cast<std::int64_t>(normals_of_block);
  if (at * own >= count) return;
  const std::uint64_t block = first_block + static_cast<std::uint64_t>(at);
  PhiloxWords<1> words{{{low_word(block)}, {high_word(block)}, {low_word(draw.name)}, {high_word(draw.name)}}};
  philox(draw.key, words);
  const NormalPair a = normal_pair(words[0][0], words[1][0]), b = normal_pair(words[2][0], words[3][0]);
  const float values[own] = {a.first * draw.deviation, a.second * draw.deviation, b.first * draw.deviation,
                             b.second * draw.deviation};
#pragma unroll
  for (int i = 0; i < own; ++i) {
    if (at * own + i < count) out[at * own + i] = values[i];
  }
}

// The slice in its logical matrix; see QuantisedLayout.
struct SlicePlaces {
  std::int64_t first, runs, length, stride, blocks_of_run;

  // Returns the number of the logical matrix's element in the slice; below 0 for one outside of it.
  __device__ std::int64_t element(std::int64_t place) const {
    const std::int64_t from_first = place - first;
    if (from_first < 0) return -1;
    const std::int64_t run = runs == 1 ? 0 : from_first / stride, at = from_first - run * stride;
    return run < runs && at < length ? run * length + at : -1;
  }
  // Returns the number of the logical matrix's block among those that the slice touches; below 0 for one that it does not.
  __device__ std::int64_t touched(std::int64_t block) const {
    if (runs == 1) {
      const std::int64_t at = block - first / nf4_block;
      return at >= 0 && at < blocks_of_run ? at : -1;
    }
    const std::int64_t at = element(block * nf4_block);  // runs begin and end with blocks
    return at < 0 ? -1 : at / length * blocks_of_run + at % length / nf4_block;
  }
};

SlicePlaces places_of(const QuantisedLayout& layout) {
  return {layout.runs.first, layout.runs.runs, layout.runs.length, layout.runs.stride, layout.blocks_of_run()};
}

__device__ inline float inverse_of(float scale) { return 1.0F / fmaxf(scale, 1e-38F); }

// A warp finds the largest magnitude of a block.
__global__ void nf4_scales_kernel(const float* values, std::int64_t count, float* scales) {
  wait_for_previous();
  const std::int64_t block = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) / warp;
  if (block * nf4_block >= count) return;
  float largest = 0;
  for (std::int64_t at = block * nf4_block + threadIdx.x % warp; at < min((block + 1) * nf4_block, count); at += warp)
    largest = fmaxf(largest, fabsf(values[at]));
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, step));
  if (threadIdx.x % warp == 0) scales[block] = largest;
}

struct Nf4Values {
  const float* values;
  std::int64_t first, count;
  const float* scales;  // of the values' blocks
};

// A thread makes a byte of two codes. The other half of a byte at the end of the values is there already, or follows.
__global__ void nf4_codes_kernel(Nf4Values from, SlicePlaces places, const float* levels, std::uint8_t* codes,
                                 std::int64_t pairs) {
  wait_for_previous();
  __shared__ float bounds[nf4_levels - 1];
  if (threadIdx.x < nf4_levels - 1) bounds[threadIdx.x] = (levels[threadIdx.x] + levels[threadIdx.x + 1]) / 2;
  __syncthreads();
  const std::int64_t pair = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (pair >= pairs) return;
  // A byte begins with an even element of the slice, whose first element may be an odd one of the matrix.
  const std::int64_t begin = from.first + 2 * pair - places.first % 2;
  unsigned bits = 0;
  std::int64_t byte = -1;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t place = begin + half, at = place - from.first;
    if (at < 0 || at >= from.count) continue;
    const std::int64_t element = places.element(place);
    if (element < 0) continue;
    const float value = from.values[at] * inverse_of(from.scales[at / nf4_block]);
    unsigned code = 0;
#pragma unroll
    for (int i = 0; i < nf4_levels - 1; ++i) code += value > bounds[i] ? 1 : 0;
    bits |= code << (half == 0 ? 4 : 0);
    byte = element / 2;
  }
  if (byte >= 0) codes[byte] = static_cast<std::uint8_t>(codes[byte] | bits);
}

// A thread adds the scales of a group in order.
__global__ void group_sums_kernel(const float* scales, std::int64_t blocks, double* sums, std::int64_t groups) {
  wait_for_previous();
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (group >= groups) return;
  double sum = 0;
  for (std::int64_t i = group * nf4_scale_group; i < min((group + 1) * nf4_scale_group, blocks); ++i) sum += scales[i];
  sums[group] = sum;
}

__global__ void mean_kernel(const double* sums, std::int64_t groups, std::int64_t blocks, float* mean) {
  wait_for_previous();
  double sum = 0;
#pragma unroll 8
  for (std::int64_t i = 0; i < groups; ++i) sum += sums[i];
  *mean = static_cast<float>(sum / static_cast<double>(blocks));
}

// The tables of a matrix of nf4 with double quantisation, and where its scales are written.
struct CodedScales {
  const float *map, *mean;
  std::uint8_t* codes;
  float* group_scales;
};

// A block of threads codes a group of scales.
__global__ void code_scales_kernel(const float* scales, std::int64_t blocks, SlicePlaces places, CodedScales out) {
  wait_for_previous();
  __shared__ float bounds[nf4_scale_map], largest_of_warp[threads / warp];
  const int own = static_cast<int>(threadIdx.x);
  bounds[own] = own + 1 < nf4_scale_map ? (out.map[own] + out.map[own + 1]) / 2 : INFINITY;
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * nf4_scale_group + own;
  const float difference = block < blocks ? scales[block] - *out.mean : 0.0F;
  float largest = fabsf(difference);
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, step));
  if (own % warp == 0) largest_of_warp[own / warp] = largest;
  __syncthreads();
  for (const float other : largest_of_warp) largest = fmaxf(largest, other);
  if (own == 0) out.group_scales[blockIdx.x] = largest;
  const std::int64_t touched = block < blocks ? places.touched(block) : -1;
  if (touched < 0) return;
  const float value = difference * inverse_of(largest);
  int low = 0, high = nf4_scale_map - 1;  // the first bound that is not below the value is among [low, high]
  while (low < high) {
    const int middle = (low + high) / 2;
    if (bounds[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  out.codes[touched] = static_cast<std::uint8_t>(low);
}

__global__ void keep_scales_kernel(const float* scales, std::int64_t blocks, SlicePlaces places, float* out) {
  wait_for_previous();
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t touched = block < blocks ? places.touched(block) : -1;
  if (touched >= 0) out[touched] = scales[block];
}

template <class T>
T* part_of(const QuantisedMatrix& matrix, std::size_t offset) {
  return reinterpret_cast<T*>(matrix.data + offset);
}

}  // namespace

void draw_normals(cudaStream_t stream, const DrawNormalsArgs& args) {
  const std::int64_t count = args.out.elements();
  if (count == 0) return;
  const auto first = static_cast<std::uint64_t>(args.first) / normals_of_block;
  launch(stream, draw_normals_kernel, blocks_for(count, threads * static_cast<std::int64_t>(normals_of_block)), threads, 0,
         args.draw, first, data_of<float>(args.out), count);
}

void quantise_nf4(cudaStream_t stream, const QuantiseNf4Args& args) {
  const std::int64_t count = args.values.elements();
  if (count == 0) return;
  float* const scales = data_of<float>(args.scales) + args.first / nf4_block;
  const auto* const values = data_of<float>(args.values);
  launch(stream, nf4_scales_kernel, blocks_for(ceil_div(count, nf4_block), threads / warp), threads, 0, values, count, scales);
  const SlicePlaces places = places_of(args.out.layout);
  const std::int64_t pairs = (count - 1 + places.first % 2) / 2 + 1;
  launch(stream, nf4_codes_kernel, blocks_for(pairs, threads), threads, 0, Nf4Values{values, args.first, count, scales}, places,
         args.out.tables(), part_of<std::uint8_t>(args.out, args.out.layout.codes), pairs);
}

std::size_t code_nf4_scales_scratch(const QuantisedLayout& layout) {
  return static_cast<std::size_t>(layout.scale_groups()) * sizeof(double);
}

void code_nf4_scales(cudaStream_t stream, const CodeNf4ScalesArgs& args, void* scratch) {
  const QuantisedLayout& layout = args.out.layout;
  const std::int64_t blocks = layout.blocks(), groups = layout.scale_groups();
  if (blocks == 0) return;
  const auto* const scales = data_of<float>(args.scales);
  const SlicePlaces places = places_of(layout);
  if (layout.form == WeightForm::nf4_scales)
    return launch(stream, keep_scales_kernel, blocks_for(blocks, threads), threads, 0, scales, blocks, places,
                  part_of<float>(args.out, layout.scales));
  auto* const sums = static_cast<double*>(scratch);
  float* const mean = part_of<float>(args.out, layout.tables) + nf4_levels + nf4_scale_map;
  launch(stream, group_sums_kernel, blocks_for(groups, threads), threads, 0, scales, blocks, sums, groups);
  launch(stream, mean_kernel, 1, 1, 0, sums, groups, blocks, mean);
  launch(stream, code_scales_kernel, static_cast<unsigned>(groups), threads, 0, scales, blocks, places,
         CodedScales{args.out.tables() + nf4_levels, mean, part_of<std::uint8_t>(args.out, layout.scale_codes),
                     part_of<float>(args.out, layout.scales)});
}

}  // namespace pipetrain::cuda
