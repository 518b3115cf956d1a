// Sums the columns of a matrix whose rows are processed in tiles.
#pragma once

#include <cstring>

#include "core/cpu_stream.hpp"
#include "core/tensor.hpp"

namespace pipetrain::cpu {

// Adds to total [cols] what work(begin, end, sums) adds to sums [cols] for the rows [begin, end). partial
// [tiles, cols] holds the tiles' sums, which are then added in order.
template <class Work>
void add_column_sums(CpuStream& stream, std::int64_t rows, const Tensor& partial, const Tensor& total, const Work& work) {
  const std::int64_t tiles = partial.rows(), cols = partial.cols();
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    float* sums = partial.as<float>() + tile * cols;
    std::memset(sums, 0, static_cast<std::size_t>(cols) * sizeof(float));
    work(rows * tile / tiles, rows * (tile + 1) / tiles, sums);
  });
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const float* sums = partial.as<float>() + tile * cols;
    for (std::int64_t i = 0; i < cols; ++i) total.as<float>()[i] += sums[i];
  }
}

}  // namespace pipetrain::cpu
