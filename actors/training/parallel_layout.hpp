// Who computes what where: the plan of the schedule, the blocks of every stage, the devices and the groups between their ranks.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank_compute.hpp"
#include "comm/groups.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "schedules/plan.hpp"

namespace pipetrain {

struct TrainJob;

// The job's ranks. Throws Error(input) for a parallel size below 1.
Mesh mesh_of(const TrainJob& job);

class ParallelLayout {
 public:
  // Throws Error(input) when the model cannot be split or computed so, or the schedule cannot be built.
  explicit ParallelLayout(const TrainJob& job);

  const Mesh& mesh() const { return mesh_; }
  std::vector<StageId> stages() const;  // of all replicas, replica-major
  const schedules::Plan& plan() const { return plan_; }
  const std::vector<std::vector<Block>>& parts() const { return parts_; }  // by virtual stage
  const Device& device(const MeshCoordinate& rank) const { return *devices_[index(rank)]; }
  // What each rank of this stage is made of.
  std::vector<RankSetup> rank_setups(const TrainJob& job, StageId id, const schedules::StageNeeds& needs) const;
  std::vector<Device*> stage_devices(StageId id) const;

 private:
  std::size_t index(const MeshCoordinate& rank) const { return static_cast<std::size_t>(mesh_.rank(rank)); }
  void make_groups(bool tied);
  // Gives the members, in this order, a group of their own, unless one is alone.
  void connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use = GroupUse::alone);
  // The ranks of the stage, in order.
  std::vector<MeshCoordinate> ranks_of(StageId id) const;
  // Whether some neighbour's slots are in another GPU's memory.
  bool sends_far(const MeshCoordinate& rank) const;
  RankSetup rank_setup(const TrainJob& job, const MeshCoordinate& rank, const schedules::StageNeeds& needs) const;

  Mesh mesh_;
  schedules::Plan plan_;
  std::vector<std::vector<Block>> parts_;         // by virtual stage
  std::vector<std::unique_ptr<Device>> devices_;  // by rank, like groups_
  std::vector<RankGroups> groups_;
};

}  // namespace pipetrain
