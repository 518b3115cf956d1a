// Tiles of heads in shared memory and their products on tensor cores, for the kernels of attention_mma.cu and
// attention_mma_backward.cu. Fragments have the layout of PTX's mma.m16n8k16 and ldmatrix: a thread has rows
// lane / 4 and lane / 4 + 8, columns 2 (lane % 4) and the next one.
#pragma once

#include "ops/cuda/attention/attention.cuh"
#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {
namespace {

constexpr int tile = 64;  // queries, and keys
constexpr int warp_rows = 16;
constexpr int threads = tile / warp_rows * 32;
constexpr float ln_2 = 0.6931471805599453F;

// The keys of a segment that a kernel computes: those that documents and a window show, those of a pattern, or `added`: further
// ones, whose share it adds to results that are there.
enum class Keys : int { window, pattern, added };

// c += a b, for a of 16 x 16 and b of 16 x 8.
__device__ void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// 64 rows of one head in shared memory, padded so that the 16-byte words of eight rows are in different banks. Rows from `end`
// on and columns past the head's size are zero. `size`: the number of columns, a multiple of 16.
template <int size>
struct Tile {
  static constexpr int stride = size + 8;
  static constexpr int elements = tile * stride;
  bf16* at;

  __device__ Tile(bf16* memory, int index) : at(memory + index * elements) {}

  // The matrix of a head: its rows [first, end), of which the tile holds as many as fit.
  struct Source {
    const bf16* head;
    std::int64_t row_stride;
    int end, dim;
  };
  __device__ void load(const Source& from, int first) const {
    constexpr int chunks = size / 8;  // of 16 bytes
#pragma unroll 4
    for (int i = threadIdx.x; i < tile * chunks; i += threads) {
      const int row = i / chunks, col = i % chunks * 8;
      const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(at + row * stride + col));
      const bool there = first + row < from.end && col < from.dim;
      const bf16* const at_source = from.head + (there ? (first + row) * from.row_stride + col : 0);
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(at_source), "r"(there ? 16 : 0));
    }
  }

  // Loads a left factor of 16 x 16 from here on.
  __device__ void left(unsigned (&r)[4], int row, int col) const {
    const int lane = threadIdx.x % 32;
    four<false>(r, row + lane % 16, col + lane / 16 * 8);
  }
  // Loads two right factors of 16 x 8 whose columns are rows of the tile: from row and from row + 8.
  __device__ void right_rows(unsigned (&r)[4], int row, int col) const {
    const int lane = threadIdx.x % 32;
    four<false>(r, row + lane / 16 * 8 + lane % 8, col + lane / 8 % 2 * 8);
  }
  // Loads two right factors of 16 x 8 whose rows are rows of the tile: from column col and from col + 8.
  __device__ void right_cols(unsigned (&r)[4], int row, int col) const {
    const int lane = threadIdx.x % 32;
    four<true>(r, row + lane % 16, col + lane / 16 * 8);
  }

 private:
  template <bool transposed>
  __device__ void four(unsigned (&r)[4], int row, int col) const {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(at + row * stride + col));
    if constexpr (transposed) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(from));
    } else {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                   : "r"(from));
    }
  }
};

__device__ void wait_for_tiles() {
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;\n" ::);
  __syncthreads();
}

// scores [16, 8 n] = rows of a from `row` on times the transpose of rows of b from `first` on.
template <int size, int n>
__device__ void products(float (&scores)[n][4], const Tile<size>& a, int row, const Tile<size>& b, int first) {
#pragma unroll
  for (int k = 0; k < size; k += 16) {
    unsigned left[4];
    a.left(left, row, k);
#pragma unroll
    for (int pair = 0; pair < n / 2; ++pair) {
      unsigned right[4];
      b.right_rows(right, first + pair * 16, k);
      multiply_add(scores[2 * pair], left, right[0], right[1]);
      multiply_add(scores[2 * pair + 1], left, right[2], right[3]);
    }
  }
}

// acc [16, cols] += weights [16, 8 n] times rows of b from `first` on, of its columns from first_col on.
template <int cols, int size, int n>
__device__ void add_products(float (&acc)[cols / 8][4], const float (&weights)[n][4], const Tile<size>& b, int first,
                             int first_col = 0) {
#pragma unroll
  for (int k = 0; k < n / 2; ++k) {
    const float(&low)[4] = weights[2 * k], (&high)[4] = weights[2 * k + 1];
    const unsigned left[4] = {pack<bf16>(low[0], low[1]), pack<bf16>(low[2], low[3]), pack<bf16>(high[0], high[1]),
                              pack<bf16>(high[2], high[3])};
#pragma unroll
    for (int pair = 0; pair < cols / 16; ++pair) {
      unsigned right[4];
      b.right_cols(right, first + k * 16, first_col + pair * 16);
      multiply_add(acc[2 * pair], left, right[0], right[1]);
      multiply_add(acc[2 * pair + 1], left, right[2], right[3]);
    }
  }
}

template <Keys kind>
__device__ void put(bf16* to, float first, float second, bool) {
  auto& there = *reinterpret_cast<unsigned*>(to);
  if constexpr (kind == Keys::added) {
    const float2 before = unpack<bf16>(there);
    first += before.x, second += before.y;
  }
  there = pack<bf16>(first, second);
}
template <Keys>
__device__ void put(float* to, float first, float second, bool adds) {
  auto& there = *reinterpret_cast<float2*>(to);
  there = adds ? make_float2(there.x + first, there.y + second) : make_float2(first, second);
}

// The destination of the rows [0, end) of a head's result. T: bf16, overwritten but for Keys::added, or float, overwritten or
// added to.
template <class T>
struct Target {
  T* head;
  std::int64_t row_stride;
  int end, dim;
  bool adds = false;
};

// Stores this warp's 16 rows from `row` on.
template <int size, Keys kind = Keys::window, class T>
__device__ void write(const Target<T>& to, int row, const float (&acc)[size / 8][4], const float (&factor)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int at = row + lane / 4 + 8 * i;
    if (at >= to.end) continue;
#pragma unroll
    for (int n = 0; n < size / 8; ++n) {
      const int col = n * 8 + lane % 4 * 2;
      if (col >= to.dim) continue;
      put<kind>(to.head + at * to.row_stride + col, acc[n][2 * i] * factor[i], acc[n][2 * i + 1] * factor[i], to.adds);
    }
  }
}

// Calls body(Constant<size>), where size is the number of columns that a tile of such heads has.
template <class Body>
void with_tile_size(std::int64_t head_dim, Body body) {
  if (head_dim <= 64) return body(Constant<64>{});
  if (head_dim <= 128) return body(Constant<128>{});
  return body(Constant<256>{});
}

// One block for each tile of rows.
struct Grid {
  std::int64_t rows, heads, batch;
  std::size_t shared;  // bytes
};

template <class Kernel, class... Arguments>
void start(Kernel kernel, const Grid& of, cudaStream_t stream, Arguments... arguments) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(of.shared));
  const dim3 grid(blocks_for(of.rows, tile), static_cast<unsigned>(of.heads), static_cast<unsigned>(of.batch));
  kernel<<<grid, threads, of.shared, stream>>>(arguments...);
}

template <int size>
constexpr std::size_t bytes_of(int tiles) {
  return static_cast<std::size_t>(tiles) * Tile<size>::elements * sizeof(bf16);
}

}  // namespace
}  // namespace pipetrain::cuda
