// Cuts an operation's work into tiles by its shapes alone, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/cpu_stream.hpp"
#include "core/tensor.hpp"

namespace pipetrain::cpu {

// A tile of fewer elements is not worth handing to another thread.
constexpr std::int64_t tile_elements = 16384;
constexpr std::int64_t max_tiles = 16;

// Cuts `rows` of `cols` elements each into ranges of whole rows and calls work(begin, end) for each.
inline std::int64_t row_tiles(std::int64_t rows, std::int64_t cols) {
  return std::clamp<std::int64_t>(rows * cols / tile_elements, 1, std::clamp<std::int64_t>(rows, 1, max_tiles));
}

template <class Work>
void for_row_tiles(CpuStream& stream, std::int64_t rows, std::int64_t cols, const Work& work) {
  const std::int64_t tiles = row_tiles(rows, cols);
  if (tiles == 1) return work(std::int64_t{0}, rows);
  stream.parallel_for(tiles, [&](std::int64_t tile) { work(rows * tile / tiles, rows * (tile + 1) / tiles); });
}

// The number of rows that hold values: see ops/arguments/experts.hpp. Call it on the stream's thread.
inline std::int64_t used_rows(const Tensor& used, std::int64_t rows) {
  return used.shape.rank() == 0 ? rows : *used.as<std::int32_t>();
}

template <class Work>
void for_elements(CpuStream& stream, std::int64_t elements, const Work& work) {
  for_row_tiles(stream, elements, 1, work);
}

}  // namespace pipetrain::cpu
