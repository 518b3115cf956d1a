#include "actors/ranks/rank_reach.hpp"

#include "comm/transport_memory.hpp"

namespace pipetrain {

MeshRank RankReach::rank(int rank, int lane) const {
  MeshRank place;
  place.id = world_.mesh().at(rank);
  place.rank = rank;
  place.lane = lane;
  place.device = &world_.device(rank);
  place.slot_memory = world_.slot_memory(rank);
  return place;
}

void RankReach::add_link(MeshRank& from, int stage, int slots) const {
  MeshCoordinate receiver = from.id;
  receiver.pp = stage;
  const int to = world_.mesh().rank(receiver);
  const bool far = ranks_.spans_processes({from.rank, to});
  const bool mirrors = planned_ && far && keeps_mirrors(planned_->transport);
  const LinkKind kind = from.links[to] = mirrors ? LinkKind::same_memory : world_.link(from.rank, to);
  if (far && kind == LinkKind::same_memory) from.mirrors += slots;
}

std::size_t RankReach::group_bytes(const std::vector<int>& members) const {
  if (!ranks_.spans_processes(members)) return 0;
  const int ranks = static_cast<int>(members.size());
  if (planned_) return group_memory(planned_->transport, ranks);
  return world_.transport() ? world_.transport()->group_memory(ranks) : 0;
}

}  // namespace pipetrain
