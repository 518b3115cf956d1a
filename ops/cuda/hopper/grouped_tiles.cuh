// The tiles of a grouped product's result, and the boxes of its operands that a tile needs. Only for .cu files.
//
// A tile has 128 rows of tokens, of one expert, and 256 columns of the result; the depth is K (Product::y) or N (dx). Letters
// as in ops/ops.hpp.
#pragma once

#include <cuda.h>

#include "ops/cuda/experts/row_tiles.cuh"
#include "ops/cuda/hopper/bulk_copy.cuh"
#include "ops/gemm_shape.hpp"

namespace pipetrain::cuda::hopper {

namespace grouped {
constexpr int rows = 128, cols = 256, depth = 64, stages = 4;
constexpr int box_row_bytes = 128;              // a box has 64 columns of 16 bits
constexpr int half_bytes = 64 * box_row_bytes;  // a box of 64 rows
constexpr int a_bytes = 2 * half_bytes, b_bytes = 4 * half_bytes;
constexpr int threads = 384;  // two groups of warps that multiply, each 64 rows of a tile, and one that loads
}  // namespace grouped

struct GroupedView {
  const int* offsets;  // [E + 1]
  int experts;
  int n, k;  // of each expert's matrix
  void* out;
  int* tickets;  // [2], zeros between launches: the tiles taken beyond each block's first, and the blocks that have ended
  const void* bias = nullptr;      // [E n] of the output's type, or null: Product::y alone
  const float* weights = nullptr;  // [R]: factors of the rows' biases, or null
};

struct GroupedMaps {
  CUtensorMap a, b;
};

struct GroupedTile {
  int expert;
  int row, rows, col;  // of the result; rows: how many of the expert's rows begin there
  int depth;
};

// The place of a tile in a matrix, in tiles.
struct TilePlace {
  int row, col;
};
// Tiles that run at the same time share rows and columns: `together` tiles of rows pass through all columns together.
template <int together>
__device__ TilePlace tile_place(int index, int rows, int columns) {
  const int band = index / (together * columns), height = min(together, rows - band * together);
  const int in_band = index - band * together * columns;
  return {band * together + in_band % height, in_band / height};
}

template <Product product>
class GroupedTiles {
 public:
  // All threads of the block must call it.
  __device__ GroupedTiles(const GroupedView& view, int* memory)
      : view_(view),
        rows_(find_row_tiles<grouped::rows>(view.offsets, view.experts, memory)),
        columns_((result_cols() + grouped::cols - 1) / grouped::cols) {}

  __device__ int count() const { return rows_.count() * columns_; }
  __device__ GroupedTile at(int index) const {
    const int expert = rows_.expert_of(index / columns_), tiles = rows_.before[expert + 1] - rows_.before[expert];
    const TilePlace place = tile_place<8>(index - rows_.before[expert] * columns_, tiles, columns_);
    const int row = rows_.offsets[expert] + place.row * grouped::rows;
    return {expert, row, rows_.offsets[expert + 1] - row, place.col * grouped::cols, product == Product::y ? view_.k : view_.n};
  }
  __device__ int result_cols() const { return product == Product::y ? view_.n : view_.k; }

 private:
  const GroupedView& view_;
  RowTiles rows_;
  int columns_;
};

// Returns the bytes that load_step() copies.
__device__ inline int step_bytes(const GroupedTile& tile) {
  return (tile.rows > 64 ? grouped::a_bytes : grouped::half_bytes) + grouped::b_bytes;
}

// Copies a tile's operands from `depth` on.
template <Product product>
__device__ void load_step(const GroupedView& view, const GroupedMaps& maps, const GroupedTile& tile, int depth, char* a,
                          char* b, Barrier& full) {
  using namespace grouped;
  load_box(a, maps.a, depth, tile.row, full);
  if (tile.rows > 64) load_box(a + half_bytes, maps.a, depth, tile.row + 64, full);
  const int matrix = tile.expert * view.n;
  if constexpr (product == Product::y) {
    load_box(b, maps.b, depth, matrix + tile.col, full);
  } else {
    for (int box = 0; box < 4; ++box) load_box(b + box * half_bytes, maps.b, tile.col + box * 64, matrix + depth, full);
  }
}

}  // namespace pipetrain::cuda::hopper
