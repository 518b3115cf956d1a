#include <algorithm>
#include <cstring>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void embedding(CpuStream& stream, const Tensor& ids, const Tensor& table, std::int64_t first_id, const Tensor& out) {
  const std::int64_t cols = table.cols();
  const auto bytes = static_cast<std::size_t>(cols) * size_of(table.dtype);
  for_row_tiles(stream, ids.elements(), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t row = ids.as<std::int32_t>()[token] - first_id;
      char* const to = element_at(out, token * cols);
      if (row >= 0 && row < table.rows()) {
        std::memcpy(to, element_at(table, row * cols), bytes);
      } else {
        std::memset(to, 0, bytes);
      }
    }
  });
}

// Tiles are ranges of columns, so that every element adds its tokens in order.
void embedding_grad(CpuStream& stream, const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) {
  const std::int64_t cols = dtable.cols(), tiles = std::clamp<std::int64_t>(cols / 64, 1, max_tiles);
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    const std::int64_t begin = cols * tile / tiles, end = cols * (tile + 1) / tiles;
    const Rows of(dy);
    for (std::int64_t token = 0; token < ids.elements(); ++token) {
      const std::int64_t row = ids.as<std::int32_t>()[token] - first_id;
      if (row < 0 || row >= dtable.rows()) continue;
      const float* from = of.read(token, begin, end);
      float* to = dtable.as<float>() + row * cols + begin;
      for (std::int64_t i = 0; i < end - begin; ++i) to[i] += from[i];
    }
  });
}

}  // namespace pipetrain::cpu
