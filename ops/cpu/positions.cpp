#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void add_positions(CpuStream& stream, std::int64_t first_token, std::int64_t sequence, const Tensor& table, const Tensor& x) {
  const std::int64_t cols = x.cols();
  for_row_tiles(stream, x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* position = table.as<float>() + (first_token + row) % sequence * cols;
      float* values = x.as<float>() + row * cols;
      for (std::int64_t i = 0; i < cols; ++i) values[i] += position[i];
    }
  });
}

// Tiles are runs of positions; each gets its sequences in order.
void positions_grad(CpuStream& stream, std::int64_t first_token, std::int64_t sequence, const Tensor& dy,
                    const Tensor& dtable) {
  const std::int64_t rows = dy.rows(), cols = dy.cols();
  for_row_tiles(stream, sequence, cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      float* sums = dtable.as<float>() + position * cols;
      const std::int64_t first = (position - first_token % sequence + sequence) % sequence;
      for (std::int64_t row = first; row < rows; row += sequence) {
        const float* values = dy.as<float>() + row * cols;
        for (std::int64_t i = 0; i < cols; ++i) sums[i] += values[i];
      }
    }
  });
}

}  // namespace pipetrain::cpu
