// Writing the sums of a grouped product's tile, whose layout wgmma.cuh describes, to global memory: lanes first exchange
// elements, so that each writes 16 bytes. Only for .cu files.
#pragma once

#include "ops/cuda/hopper/grouped_tiles.cuh"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda::hopper {

// Transposes four words of each of four adjacent lanes: lane q's word i becomes lane i's word q.
__device__ __forceinline__ void transpose_words(std::uint32_t (&words)[4], int lane) {
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const std::uint32_t received = __shfl_xor_sync(~0U, upper ? words[i] : words[i + step], step);
      (upper ? words[i] : words[i + step]) = received;
    }
  }
}

// Adds the biases of a tile's columns, of type T, to the sums of a group's 64 rows, whose layout wgmma.cuh describes.
template <class T>
__device__ __forceinline__ void add_bias(float (&sums)[128], const GroupedView& view, const GroupedTile& tile, int group) {
  if (view.bias == nullptr) return;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            row = 64 * group + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
  const auto weight = [&](int at) {
    return view.weights == nullptr ? 1.0F : at < tile.rows ? view.weights[tile.row + at] : 0.0F;
  };
  const float upper = weight(row), lower = weight(row + 8);
  const T* const bias =
      static_cast<const T*>(view.bias) + static_cast<std::int64_t>(tile.expert) * view.n + tile.col + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < 32; ++j) {
    if (tile.col + 8 * j >= view.n) continue;
    const float2 pair = unpack<T>(*reinterpret_cast<const std::uint32_t*>(bias + 8 * j));
    sums[4 * j] += upper * pair.x, sums[4 * j + 1] += upper * pair.y;
    sums[4 * j + 2] += lower * pair.x, sums[4 * j + 3] += lower * pair.y;
  }
}

// Writes 64 rows and 256 columns, rounded. `limit`: the number of rows that exist.
template <class T>
__device__ __forceinline__ void store_rounded(const float (&sums)[128], T* out, std::int64_t stride, int limit, int cols) {
  const int lane = static_cast<int>(threadIdx.x) % 32, first_row = static_cast<int>(threadIdx.x) % 128 / 32 * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < 32; j += 4) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = pack<T>(sums[4 * (j + i) + 2 * half], sums[4 * (j + i) + 2 * half + 1]);
      transpose_words(words, lane);
      const int row = first_row + 8 * half, col = 8 * (j + lane % 4);
      if (row < limit && col < cols)
        *reinterpret_cast<uint4*>(out + row * stride + col) = {words[0], words[1], words[2], words[3]};
    }
  }
}

// Transposes eight vectors of each of eight lanes at a distance of four: of them, lane q's vector i becomes lane i's vector q.
__device__ __forceinline__ void transpose_vectors(float4 (&vectors)[8], int lane) {
  const auto exchange = [](float mine, int step) { return __shfl_xor_sync(~0U, mine, 4 * step); };
#pragma unroll
  for (int step = 1; step < 8; step *= 2) {
    const bool upper = (lane / 4 & step) != 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if ((i & step) != 0) continue;
      const float4 sent = upper ? vectors[i] : vectors[i + step];
      (upper ? vectors[i] : vectors[i + step]) = {exchange(sent.x, step), exchange(sent.y, step), exchange(sent.z, step),
                                                  exchange(sent.w, step)};
    }
  }
}

// A group's 64 rows and 256 columns of a result in fp32, which sums replace or are added to. A thread reads and writes them in
// four quarters of eight vectors: a warp's accesses are 512 bytes of a row, because memory delivers less if the accesses in
// flight are shorter. The values leave the cache first: they are needed only once.
class ExactRows {
 public:
  using Vectors = float4[8];

  // limit, cols: the rows and the columns that exist.
  __device__ ExactRows(float* out, std::int64_t stride, int limit, int cols)
      : out_(out + (first_row() * stride + own_col())), stride_(stride), limit_(limit), cols_(cols) {}

  // Begins to read the values of a quarter, which may arrive while products are computed.
  template <int quarter>
  __device__ __forceinline__ void read(Vectors& values) const {
#pragma unroll
    for (int row = 0; row < 8; ++row)
      values[row] = exists<quarter>(row) ? __ldcs(reinterpret_cast<const float4*>(at<quarter>(row))) : float4{};
  }

  // Writes the sums of a quarter, plus `before`.
  template <int quarter>
  __device__ __forceinline__ void write(const float (&sums)[128], const Vectors& before) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool odd = lane % 2 != 0;
    Vectors own;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int j = 4 * (16 * side<quarter> + 2 * i) + 2 * half<quarter>;
      const float x = __shfl_xor_sync(~0U, odd ? sums[j] : sums[j + 4], 1),
                  y = __shfl_xor_sync(~0U, odd ? sums[j + 1] : sums[j + 5], 1);
      own[i] = odd ? float4{x, y, sums[j + 4], sums[j + 5]} : float4{sums[j], sums[j + 1], x, y};
    }
    transpose_vectors(own, lane);
#pragma unroll
    for (int row = 0; row < 8; ++row) {
      if (exists<quarter>(row))
        __stcs(reinterpret_cast<float4*>(at<quarter>(row)), {before[row].x + own[row].x, before[row].y + own[row].y,
                                                             before[row].z + own[row].z, before[row].w + own[row].w});
    }
  }

 private:
  template <int quarter>
  static constexpr int half = quarter / 2;  // of the 16 rows of a warp
  template <int quarter>
  static constexpr int side = quarter % 2;  // of the columns

  static __device__ __forceinline__ int first_row() { return static_cast<int>(threadIdx.x) % 128 / 32 * 16; }
  // The 16 columns that four lanes write: lanes 0 and 2 have the first eight of them, 1 and 3 the others.
  static __device__ __forceinline__ int own_col() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return lane / 4 * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
  }

  template <int quarter>
  __device__ __forceinline__ bool exists(int row) const {
    return 128 * side<quarter> + own_col() < cols_ && first_row() + 8 * half<quarter> + row < limit_;
  }
  template <int quarter>
  __device__ __forceinline__ float* at(int row) const {
    return out_ + (8 * half<quarter> + row) * stride_ + 128 * side<quarter>;
  }

  float* const out_;
  const std::int64_t stride_;
  const int limit_, cols_;
};

}  // namespace pipetrain::cuda::hopper
