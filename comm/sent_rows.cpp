#include "comm/sent_rows.hpp"

#include <cstring>

namespace pipetrain {

void copy_sent_rows(const RowExchange::Rows& rows, std::int64_t begin, std::int64_t end, void* target) {
  if (begin == end) return;
  if (!rows.is_ordered()) {
    const Tensor from = rows.source.row_range(begin, end);
    if (from.bytes() > 0) std::memcpy(target, from.data, from.bytes());
    return;
  }
  const std::size_t bytes = rows.source.row_range(0, 1).bytes();
  const auto* const order = rows.order.as<std::int32_t>();
  auto* to = static_cast<std::byte*>(target);
  for (std::int64_t row = begin; row < end; ++row, to += bytes)
    std::memcpy(to, static_cast<const std::byte*>(rows.source.data) + static_cast<std::size_t>(order[row]) * bytes, bytes);
}

Tensor sent_rows(const RowExchange::Rows& rows, std::int64_t begin, std::int64_t end, std::vector<std::byte>& memory) {
  if (!rows.is_ordered()) return rows.source.row_range(begin, end);
  Tensor copies = rows.source;
  copies.shape = copies.shape.with(0, end - begin);
  memory.resize(copies.bytes());
  copies.data = memory.data();
  copy_sent_rows(rows, begin, end, copies.data);
  return copies;
}

}  // namespace pipetrain
