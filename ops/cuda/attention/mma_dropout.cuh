// Draws which of a thread's scores dropout keeps, for the score layout of mma_tile.cuh.
#pragma once

#include "ops/cuda/attention/mma_tile.cuh"

namespace pipetrain::cuda {
namespace {

// A bit mask of which of a query's eight keys 8 block .. 8 block + 7 are kept. The segment's first key has a
// position that is a multiple of 8.
struct Draws {
  const Segment<bf16>& s;
  std::uint32_t sample, plane;

  __device__ Draws(const Segment<bf16>& segment, int batch, int head)
      : s(segment), sample(segment.heads.dropout.first_sample + batch), plane(segment.heads.dropout.first_plane + head) {}
  __device__ unsigned kept(int query, int block) const {
    const Dropout& dropout = s.heads.dropout;
    const auto words = dropout_words(dropout, s.first_key / 8 + block, s.first_query + query, sample, plane);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) bits |= (dropout_draw(words, 0, i) < dropout.dropped ? 0U : 1U) << i;
    return bits;
  }
};

// Sets bits for the elements that a thread has of its two queries' scores with the tile's keys, two for each eight keys. A
// block of draws covers eight keys of a query, so the four threads that share a query take turns at drawing.
__device__ void draw_queries(const Draws& draws, const int (&query)[2], int key0, unsigned (&bits)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned own[2] = {draws.kept(query[i], key0 / 8 + lane % 4), draws.kept(query[i], key0 / 8 + lane % 4 + 4)};
    bits[i] = 0;
#pragma unroll
    for (int n = 0; n < tile / 8; ++n) {
      const unsigned block = __shfl_sync(0xffffffffU, own[n / 4], (lane & ~3) + n % 4);
      bits[i] |= (block >> (lane % 4 * 2) & 3U) << (2 * n);
    }
  }
}

// Like draw_queries(), but rows are keys and columns queries. A block of draws covers one query and the eight
// keys that eight threads have, so each thread draws one block for two columns of eight queries.
template <int n>
__device__ void draw_keys(const Draws& draws, int key0, int query0, unsigned (&kept)[n][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int pair = 0; pair < n / 2; ++pair) {
    const unsigned own = draws.kept(query0 + pair * 16 + lane / 2, key0 / 8 + lane % 2);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int owner = (e / 4 * 8 + lane % 4 * 2 + e % 2) * 2 + e / 2 % 2;
      kept[2 * pair + e / 4][e % 4] = __shfl_sync(0xffffffffU, own, owner) >> (lane / 4) & 1U;
    }
  }
}

}  // namespace
}  // namespace pipetrain::cuda
