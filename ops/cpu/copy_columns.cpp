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

}  // namespace pipetrain::cpu
