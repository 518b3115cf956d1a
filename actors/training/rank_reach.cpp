#include "actors/training/rank_reach.hpp"

#include <algorithm>

#include "comm/transport_memory.hpp"

namespace pipetrain {

RankReach::RankReach(const World& world, const std::optional<PlannedProcesses>& planned) : world_(world), planned_(planned) {
  if (planned_) places_ = deal_ranks(world_.mesh().size(), planned_->processes);
}

bool RankReach::is_far(int rank, int other) const {
  if (!planned_) return !world_.runs(other);
  return places_[static_cast<std::size_t>(rank)].process != places_[static_cast<std::size_t>(other)].process;
}

RankReach::Edge RankReach::edge(int from, int to) const {
  const bool far = is_far(from, to);
  const bool mirrors = planned_ && far && keeps_mirrors(planned_->transport);
  const LinkKind kind = mirrors ? LinkKind::same_memory : world_.link(from, to);
  return {kind, far && kind == LinkKind::same_memory};
}

std::size_t RankReach::group_bytes(const std::vector<int>& members) const {
  const auto far = [&](int rank) { return is_far(members.front(), rank); };
  if (std::none_of(members.begin(), members.end(), far)) return 0;
  const int ranks = static_cast<int>(members.size());
  if (planned_) return group_memory(planned_->transport, ranks);
  return world_.transport() ? world_.transport()->group_memory(ranks) : 0;
}

}  // namespace pipetrain
