#include "model/rotation/rotary_tables.hpp"

#include "core/buffer.hpp"
#include "model/rotation/rotary_table.hpp"

namespace pipetrain {
namespace {

Tensor table_at(void* memory, const Rope& rope, std::int64_t head_dim, std::int64_t positions) {
  return {memory, {positions, 2, rope.rotated_columns(head_dim) / 2}, DType::f32};
}

void upload_rotary_table(const Tensor& table, const Rope& rope, const ModelConfig& config, Stream& stream) {
  const std::vector<float> values =
      rotary_table(rope, {.head_dim = config.rotary_dim(), .sequence = table.rows(), .max_positions = config.max_positions});
  stream.copy(table.data, values.data(), table.bytes());
  stream.synchronize();
}

}  // namespace

RotaryTables RotaryTables::rows(std::int64_t begin, std::int64_t end) const {
  if (full.shape.rank() == 0) return {};
  return {full.row_range(begin, end), windowed.row_range(begin, end)};
}

RotaryTables rotary_tables_at(void* memory, const ModelConfig& config, std::int64_t positions) {
  if (config.positions != PositionKind::rotary) return {};
  const Tensor full = table_at(memory, config.rope, config.rotary_dim(), positions);
  if (!config.windowed_rope) return {full, full};
  void* const behind = memory == nullptr ? nullptr : static_cast<char*>(memory) + align_up(full.bytes());
  return {full, table_at(behind, *config.windowed_rope, config.rotary_dim(), positions)};
}

std::size_t rotary_bytes(const ModelConfig& config, std::int64_t positions) {
  const RotaryTables tables = rotary_tables_at(nullptr, config, positions);
  if (tables.full.shape.rank() == 0) return 0;
  return config.windowed_rope ? align_up(tables.full.bytes()) + tables.windowed.bytes() : tables.full.bytes();
}

void upload_rotary_tables(const RotaryTables& tables, const ModelConfig& config, Stream& stream) {
  if (tables.full.shape.rank() == 0) return;
  upload_rotary_table(tables.full, config.rope, config, stream);
  if (config.windowed_rope) upload_rotary_table(tables.windowed, *config.windowed_rope, config, stream);
}

}  // namespace pipetrain
