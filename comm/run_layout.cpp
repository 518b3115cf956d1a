#include "comm/run_layout.hpp"

#include <utility>

namespace pipetrain {

Bytes to_bytes(const RunLayout& layout) {
  WireWriter out;
  out.number(static_cast<std::int32_t>(layout.changes));
  out.text(layout.text);
  return std::move(out).data();
}

RunLayout read_run_layout(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  RunLayout layout;
  layout.changes = in.number<std::int32_t>();
  layout.text = in.text();
  in.end();
  return layout;
}

}  // namespace pipetrain
