// How the ranks of this process reach other ranks, and how much memory that takes, for actual or planned processes.
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
  // The world must outlive this. planned: all ranks are in this process, but are described as if they ran in these processes.
  RankReach(const World& world, const std::optional<PlannedProcesses>& planned)
      : world_(world), ranks_(planned_mesh(world.mesh(), planned)), planned_(planned) {}

  // Returns a rank of this process with lane `lane` of its part of a stage, without links.
  MeshRank rank(int rank, int lane) const;
  // Adds the link to the rank at the same place of another stage, which has this many slots for its outputs.
  void add_link(MeshRank& from, int stage, int slots) const;
  // Returns the bytes that each member of a group keeps for data in flight to other processes.
  std::size_t group_bytes(const std::vector<int>& members) const;

 private:
  const World& world_;
  Mesh ranks_;  // where each rank runs, or would run
  std::optional<PlannedProcesses> planned_;
};

}  // namespace pipetrain
