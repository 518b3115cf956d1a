#include "comm/membership_roll.hpp"

#include <algorithm>

namespace pipetrain::control {

std::vector<int> Roll::numbers() const {
  std::vector<int> numbers;
  for (const RollEntry& entry : entries) numbers.push_back(entry.number);
  return numbers;
}

Roll call_roll(ControlPlane& plane, const RollEntry& own) {
  Roll roll;
  for (const Bytes& theirs : plane.exchange("roll of the members", to_bytes(own)))
    roll.entries.push_back(read_message<RollEntry>(theirs));
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
