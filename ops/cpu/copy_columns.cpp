#include <cstring>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

void copy_columns(CpuStream& stream, const CopyColumnsArgs& args) {
  const std::int64_t source_cols = args.source.cols(), target_cols = args.target.cols(), count = args.count;
  for_row_tiles(stream, args.source.rows(), count, [&](std::int64_t begin, std::int64_t end) {
    const Rows source(args.source);
    for (std::int64_t row = begin; row < end; ++row) {
      char* const to = element_at(args.target, row * target_cols + args.target_begin);
      if (args.source.dtype == args.target.dtype) {
        std::memcpy(to, element_at(args.source, row * source_cols + args.source_begin),
                    static_cast<std::size_t>(count) * size_of(args.source.dtype));
      } else {
        narrow(args.target.dtype, source.read(row, args.source_begin, args.source_begin + count), count, to);
      }
    }
  });
}

void add_block(CpuStream& stream, const AddBlocksArgs& args, const MatrixBlock& block) {
  const std::int64_t cols = block.values.cols(), source_cols = args.source.cols();
  for_row_tiles(stream, block.values.rows(), cols, [&](std::int64_t first, std::int64_t end) {
    const OptionalRows factors(args.factors ? std::optional(args.factors->reshaped({1, source_cols})) : std::nullopt);
    const float* const by = factors[0];
    for (std::int64_t row = first; row < end; ++row) {
      const float* const from = args.source.as<float>() + (block.row + row) * source_cols;
      float* const to = block.values.as<float>() + row * cols;
      for (std::int64_t i = 0; i < cols; ++i) {
        const std::int64_t column = block.column + i;
        const float added = by == nullptr ? from[column] : from[column] * (by[column] + args.offset);
        to[i] = args.accumulate == Accumulate::yes ? to[i] + added : added;
      }
    }
  });
}

}  // namespace pipetrain::cpu
