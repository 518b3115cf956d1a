#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/document_positions.hpp"

namespace pipetrain::cpu {
namespace {

void add_row(const float* values, float* sums, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += values[i];
}

// Tiles are ranges of columns, because any token may have any position; each adds its tokens in order.
void documents_grad(CpuStream& stream, const PositionsGradArgs& args) {
  const std::int64_t cols = args.dy.cols(), tiles = std::clamp<std::int64_t>(cols / 64, 1, max_tiles);
  const auto* documents = args.documents->as<std::int32_t>();
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    const std::int64_t begin = cols * tile / tiles, end = cols * (tile + 1) / tiles;
    const Rows dy(args.dy);
    for (std::int64_t row = 0; row < args.dy.rows(); ++row) {
      const std::int64_t position = position_of(args.first_token + row, args.sequence, documents);
      add_row(dy.read(row, begin, end), args.dtable.as<float>() + position * cols + begin, end - begin);
    }
  });
}

}  // namespace

void add_positions(CpuStream& stream, const AddPositionsArgs& args) {
  const std::int64_t cols = args.x.cols();
  const auto* documents = args.documents ? args.documents->as<std::int32_t>() : nullptr;
  for_row_tiles(stream, args.x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows table(args.table), x(args.x);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const added = table[position_of(args.first_token + row, args.sequence, documents)];
      x.update(row, [&](float* values) { add_row(added, values, cols); });
    }
  });
}

// Tiles are ranges of positions; each adds its sequences in order.
void positions_grad(CpuStream& stream, const PositionsGradArgs& args) {
  if (args.documents) return documents_grad(stream, args);
  const std::int64_t rows = args.dy.rows(), cols = args.dy.cols(), sequence = args.sequence;
  for_row_tiles(stream, sequence, cols, [&](std::int64_t begin, std::int64_t end) {
    const Rows dy(args.dy);
    for (std::int64_t position = begin; position < end; ++position) {
      const std::int64_t first = (position - args.first_token % sequence + sequence) % sequence;
      for (std::int64_t row = first; row < rows; row += sequence) {
        add_row(dy[row], args.dtable.as<float>() + position * cols, cols);
      }
    }
  });
}

}  // namespace pipetrain::cpu
