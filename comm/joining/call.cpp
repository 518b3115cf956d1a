#include "comm/joining/call.hpp"

namespace pipetrain::control {

Call read_call(std::span<const std::byte> payload) {
  Call call = read_message<Call>(payload);
  if (call.leader < 0 || call.number <= call.leader) WireReader::refuse("a number that no newcomer can have");
  return call;
}

}  // namespace pipetrain::control
