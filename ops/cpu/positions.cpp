#include "ops/cpu/kernels.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/document_positions.hpp"

namespace pipetrain::cpu {
namespace {

void add_row(const float* values, float* sums, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) sums[i] += values[i];
}

// Tiles are runs of columns, because any token may have any position; each gets its tokens in order.
void documents_grad(CpuStream& stream, const PositionsGradArgs& args) {
  const std::int64_t cols = args.dy.cols(), tiles = std::clamp<std::int64_t>(cols / 64, 1, max_tiles);
  const auto* documents = args.documents->as<std::int32_t>();
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    const std::int64_t begin = cols * tile / tiles, end = cols * (tile + 1) / tiles;
    for (std::int64_t row = 0; row < args.dy.rows(); ++row) {
      const std::int64_t position = position_of(args.first_token + row, args.sequence, documents);
      add_row(args.dy.as<float>() + row * cols, args.dtable.as<float>() + position * cols, begin, end);
    }
  });
}

}  // namespace

void add_positions(CpuStream& stream, const AddPositionsArgs& args) {
  const std::int64_t cols = args.x.cols();
  const auto* documents = args.documents ? args.documents->as<std::int32_t>() : nullptr;
  for_row_tiles(stream, args.x.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t position = position_of(args.first_token + row, args.sequence, documents);
      add_row(args.table.as<float>() + position * cols, args.x.as<float>() + row * cols, 0, cols);
    }
  });
}

// Tiles are runs of positions; each gets its sequences in order.
void positions_grad(CpuStream& stream, const PositionsGradArgs& args) {
  if (args.documents) return documents_grad(stream, args);
  const std::int64_t rows = args.dy.rows(), cols = args.dy.cols(), sequence = args.sequence;
  for_row_tiles(stream, sequence, cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t position = begin; position < end; ++position) {
      const std::int64_t first = (position - args.first_token % sequence + sequence) % sequence;
      for (std::int64_t row = first; row < rows; row += sequence) {
        add_row(args.dy.as<float>() + row * cols, args.dtable.as<float>() + position * cols, 0, cols);
      }
    }
  });
}

}  // namespace pipetrain::cpu
