// Who computes what where: the plan of the schedule, the blocks of every stage, the devices and the groups between their ranks.
#pragma once

#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank_compute.hpp"
#include "core/device.hpp"
#include "schedules/plan.hpp"

namespace pipetrain {

struct TrainJob;

class ParallelLayout {
 public:
  // Throws Error(input) when the model cannot be split or computed so, or the schedule cannot be built.
  explicit ParallelLayout(const TrainJob& job);

  const schedules::Plan& plan() const { return plan_; }
  const std::vector<std::vector<Block>>& parts() const { return parts_; }  // by virtual stage
  const Device& device(const RankId& rank) const { return *devices_[rank_index({rank.replica, rank.stage}, rank.tp_rank)]; }
  // What each rank of this stage is made of.
  std::vector<RankSetup> rank_setups(const TrainJob& job, StageId id, const schedules::StageNeeds& needs) const;
  std::vector<Device*> stage_devices(StageId id) const;

 private:
  std::size_t rank_index(StageId id, int tp_rank) const;  // dp, pp, tp; tp fastest
  void make_groups(bool tied);
  // Whether some neighbour's slots are in another GPU's memory.
  bool sends_far(StageId id, int tp_rank) const;

  int dp_, pp_, tp_;
  schedules::Plan plan_;
  std::vector<std::vector<Block>> parts_;  // by virtual stage
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<RankGroups> groups_;
};

}  // namespace pipetrain
