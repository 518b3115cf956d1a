#include "comm/gathering.hpp"

#include <algorithm>
#include <tuple>

#include "comm/process_handles.hpp"

namespace pipetrain {
namespace {

bool is_among(int process, const std::vector<int>& processes) {
  return std::find(processes.begin(), processes.end(), process) != processes.end();
}

}  // namespace

bool may_begin(const Gathering& gathering, const std::vector<int>& here, bool patience_is_over) {
  const ProcessHandles& handles = *gathering.handles;
  const auto may_come = [&](int process) {
    return !is_among(process, here) && !is_among(process, gathering.lost) && !handles.has_ended(process);
  };
  const auto& [members, newcomers] = std::tie(gathering.members, gathering.newcomers);
  if (!patience_is_over &&
      (std::any_of(members.begin(), members.end(), may_come) || std::any_of(newcomers.begin(), newcomers.end(), may_come)))
    return false;
  const auto alive = std::count_if(members.begin(), members.end(),
                                   [&](int process) { return is_among(process, here) || !handles.has_ended(process); });
  const auto twice = 2 * std::count_if(here.begin(), here.end(), [&](int process) { return is_among(process, members); });
  return twice > alive || (twice == alive && gathering.half_wins());
}

}  // namespace pipetrain
