#include "actors/ranks/rank_reach.hpp"

#include "comm/transport_memory.hpp"

namespace pipetrain {

RankReach::Edge RankReach::edge(int from, int to) const {
  const bool far = ranks_.spans_processes({from, to});
  const bool mirrors = planned_ && far && keeps_mirrors(planned_->transport);
  const LinkKind kind = mirrors ? LinkKind::same_memory : world_.link(from, to);
  return {kind, far && kind == LinkKind::same_memory};
}

std::size_t RankReach::group_bytes(const std::vector<int>& members) const {
  if (!ranks_.spans_processes(members)) return 0;
  const int ranks = static_cast<int>(members.size());
  if (planned_) return group_memory(planned_->transport, ranks);
  return world_.transport() ? world_.transport()->group_memory(ranks) : 0;
}

}  // namespace pipetrain
