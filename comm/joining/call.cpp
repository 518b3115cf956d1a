#include "comm/joining/call.hpp"

namespace pipetrain::control {

Bytes to_bytes(const Call& call) {
  WireWriter out;
  out.number(static_cast<std::int32_t>(call.number));
  out.number(static_cast<std::int32_t>(call.leader));
  out.text(call.host);
  out.number(call.port);
  out.text(call.job);
  return std::move(out).data();
}

Call read_call(std::span<const std::byte> payload) {
  WireReader in(payload);
  Call call;
  call.number = in.number<std::int32_t>();
  call.leader = in.number<std::int32_t>();
  call.host = in.text();
  call.port = in.number<std::uint16_t>();
  call.job = in.text();
  in.end();
  if (call.leader < 0 || call.number <= call.leader) WireReader::refuse("a number that no newcomer can have");
  return call;
}

Bytes contents_to_bytes(const JobContents& contents) {
  WireWriter out;
  out.list(contents, [&](const auto& value) {
    out.text(value.first);
    out.text(value.second);
  });
  return std::move(out).data();
}

JobContents read_contents(std::span<const std::byte> payload) {
  WireReader in(payload);
  JobContents contents(in.count(2 * sizeof(std::uint32_t)));
  for (auto& [name, value] : contents) {
    name = in.text();
    value = in.text();
  }
  in.end();
  return contents;
}

}  // namespace pipetrain::control
