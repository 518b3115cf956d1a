// Who computes what where when text is generated: the forward-only plan, the blocks of every stage, and the devices, groups and
// links of its ranks.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "actors/generation/generation_job.hpp"
#include "actors/generation/generation_rank.hpp"
#include "comm/world.hpp"
#include "schedules/plan.hpp"
#include "schedules/validate.hpp"

namespace pipetrain {

class GenerationLayout {
 public:
  // Throws Error(input) when the model cannot be split or computed so.
  explicit GenerationLayout(const GenerationJob& job);

  const schedules::Plan& plan() const { return plan_; }
  const std::vector<schedules::StageNeeds>& needs() const { return needs_; }  // by stage
  const std::vector<std::vector<Block>>& blocks() const { return blocks_; }   // by stage
  const Device& device(const MeshCoordinate& rank) const { return world_.device(world_.mesh().rank(rank)); }
  std::vector<Device*> stage_devices(int stage) const;
  std::vector<GenerationRankSetup> rank_setups(const GenerationJob& job, int stage, const SharedRuns& runs) const;

 private:
  schedules::Plan plan_;
  std::vector<schedules::StageNeeds> needs_;
  std::vector<std::vector<Block>> blocks_;
  World world_;
  std::map<int, std::shared_ptr<Group>> tensor_groups_;  // by rank
};

}  // namespace pipetrain
