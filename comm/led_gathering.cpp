#include "comm/led_gathering.hpp"

#include <algorithm>

namespace pipetrain {

LedGathering::LedGathering(const Gathering& gathering, Clock::time_point begin)
    : gathering_(gathering), patience_over_(begin + gathering.patience), lost_over_(begin + gathering.patience_lost) {}

bool LedGathering::is_member(int process) const {
  const auto among = [&](const std::vector<int>& processes) {
    return std::find(processes.begin(), processes.end(), process) != processes.end();
  };
  return among(gathering_.members) || among(gathering_.newcomers);
}

int LedGathering::place_of(int process) const {
  if (process > gathering_.leader) return process;
  return process == gathering_.leader ? 0 : process + 1;
}

std::vector<int> LedGathering::here(const IsHere& is_here) const {
  std::vector<int> here;
  for (const auto* processes : {&gathering_.members, &gathering_.newcomers})
    for (const int process : *processes)
      if (is_here(place_of(process))) here.push_back(process);
  return here;
}

bool LedGathering::may_begin(const IsHere& is_here, Clock::time_point now) const {
  return pipetrain::may_begin(gathering_, here(is_here), now > patience_over_);
}

void LedGathering::end_lost(Clock::time_point now) const {
  if (now <= lost_over_) return;
  for (const int process : gathering_.lost) gathering_.handles->end(process);
}

void LedGathering::end_absent(const IsHere& is_here) const {
  for (const int process : gathering_.members)
    if (!is_here(place_of(process))) gathering_.handles->end(process);
}

}  // namespace pipetrain
