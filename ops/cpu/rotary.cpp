#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/document_positions.hpp"

namespace pipetrain::cpu {

void rotary(CpuStream& stream, const SegmentShape& shape, const RotaryArgs& args) {
  const auto* documents = args.documents ? args.documents->as<std::int32_t>() : nullptr;
  const std::int64_t half = args.cos_sin.shape[2], rotated_heads = shape.heads + shape.kv_heads;
  for_row_tiles(stream, shape.tokens(), shape.packed_cols(), [&](std::int64_t begin, std::int64_t end) {
    const Rows heads(args.qkv, rotated_heads * shape.head_dim);
    for (std::int64_t token = begin; token < end; ++token) {
      const float* cosines = args.cos_sin.as<float>() + position_of(token, shape.queries, documents) * 2 * half;
      const float* sines = cosines + half;
      heads.update(token, [&](float* first) {
        for (std::int64_t head = 0; head < rotated_heads; ++head) {
          float *low = first + head * shape.head_dim, *high = low + half;
          for (std::int64_t i = 0; i < half; ++i) {
            const float sine = args.inverse ? -sines[i] : sines[i];
            const float a = low[i], b = high[i];
            low[i] = a * cosines[i] - b * sine;
            high[i] = b * cosines[i] + a * sine;
          }
        }
      });
    }
  });
}

}  // namespace pipetrain::cpu
