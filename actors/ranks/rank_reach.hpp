// How the ranks of this process reach others, and what that takes, in the processes that there are or that are planned.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "actors/ranks/rank_lanes.hpp"
#include "actors/ranks/run_processes.hpp"
#include "comm/world.hpp"

namespace pipetrain {

class RankReach {
 public:
  // The world outlives this. planned: all its ranks are in this process, and are asked of as if they were in these.
  RankReach(const World& world, const std::optional<PlannedProcesses>& planned)
      : world_(world), ranks_(planned_mesh(world.mesh(), planned)), planned_(planned) {}

  // A rank of this process as number `lane` of its part of a stage, without links.
  MeshRank rank(int rank, int lane) const;
  // Gives it the link to a rank of its own place in another stage, which has so many slots for what it sends.
  void add_link(MeshRank& from, int stage, int slots) const;
  // What each member of a group keeps for what is on its way to other processes.
  std::size_t group_bytes(const std::vector<int>& members) const;

 private:
  const World& world_;
  Mesh ranks_;  // where each runs, or would run
  std::optional<PlannedProcesses> planned_;
};

}  // namespace pipetrain
