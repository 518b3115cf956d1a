#include "apps/processes/run_message.hpp"

#include "core/error.hpp"

namespace pipetrain {

std::optional<RunMessage> read_run_message(std::span<const std::byte> bytes) {
  try {
    return read_message<RunMessage>(bytes);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace pipetrain
