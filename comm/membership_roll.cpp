#include "comm/membership_roll.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain::control {
namespace {

Bytes to_bytes(const RollEntry& entry) {
  WireWriter out;
  out.number(static_cast<std::int32_t>(entry.number));
  out.number(static_cast<std::int32_t>(entry.membership));
  out.number(static_cast<std::int32_t>(entry.next_number));
  out.text(entry.host);
  out.number(entry.standby);
  out.number(entry.door);
  out.bytes(pipetrain::to_bytes(entry.layout));
  out.flag(entry.runs);
  return std::move(out).data();
}

RollEntry read_entry(const Bytes& bytes) {
  WireReader in(bytes);
  RollEntry entry;
  entry.number = in.number<std::int32_t>();
  entry.membership = in.number<std::int32_t>();
  entry.next_number = in.number<std::int32_t>();
  entry.host = in.text();
  entry.standby = in.number<std::uint16_t>();
  entry.door = in.number<std::uint16_t>();
  entry.layout = read_run_layout(in.bytes());
  entry.runs = in.flag();
  in.end();
  return entry;
}

}  // namespace

std::vector<int> Roll::numbers() const {
  std::vector<int> numbers;
  for (const RollEntry& entry : entries) numbers.push_back(entry.number);
  return numbers;
}

Roll call_roll(ControlPlane& plane, const RollEntry& own) {
  Roll roll;
  for (const Bytes& theirs : plane.exchange("roll of the members", to_bytes(own))) roll.entries.push_back(read_entry(theirs));
  for (const RollEntry& entry : roll.entries) {
    roll.membership = std::max(roll.membership, entry.membership + 1);
    roll.next_number = std::max({roll.next_number, entry.next_number, entry.number + 1});
    if (entry.layout.changes > roll.layout.changes) roll.layout = entry.layout;
  }
  roll.all_run = std::all_of(roll.entries.begin(), roll.entries.end(),
                             [&](const RollEntry& entry) { return entry.runs && entry.layout.changes == roll.layout.changes; });
  return roll;
}

}  // namespace pipetrain::control
