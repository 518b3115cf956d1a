#include "apps/processes/run_message.hpp"

#include <utility>

#include "core/error.hpp"

namespace pipetrain {

Bytes to_bytes(const RunMessage& message) {
  WireWriter out;
  out.number(message.kind);
  out.number(message.number);
  out.text(message.text);
  return std::move(out).data();
}

std::optional<RunMessage> read_run_message(std::span<const std::byte> bytes) {
  try {
    WireReader in(bytes);
    RunMessage message;
    message.kind = in.choice(RunMessage::Kind::last);
    message.number = in.number<std::int32_t>();
    message.text = in.text();
    in.end();
    return message;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace pipetrain
