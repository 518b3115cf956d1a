// The layout of a generation job: the forward-only plan, the blocks of every stage, and the devices, groups and links
// of this process's ranks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/generation/generation_job.hpp"
#include "actors/generation/generation_rank.hpp"
#include "actors/ranks/rank_reach.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/ranks/stage_parts.hpp"
#include "comm/world.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

class EngineChannel;

// Returns the blocks of every stage. Throws Error(input) when the model cannot be split or computed in this way.
std::vector<std::vector<Block>> generation_blocks(const GenerationJob& job);

class GenerationLayout {
 public:
  // channel: of a job over several processes, all of which make their layouts at the same time and open the transport
  // between them; null: this process runs all ranks. planned: all ranks are here, but their setups are those for these
  // processes. Throws Error(input) when the model cannot be split or computed in this way.
  explicit GenerationLayout(const GenerationJob& job, const std::shared_ptr<EngineChannel>& channel = nullptr,
                            const std::optional<PlannedProcesses>& planned = {});
  GenerationLayout(const GenerationLayout&) = delete;
  GenerationLayout& operator=(const GenerationLayout&) = delete;

  const schedules::Plan& plan() const { return plan_; }
  const std::vector<schedules::StageNeeds>& needs() const { return needs_; }  // by stage
  const std::vector<std::vector<Block>>& blocks() const { return blocks_; }   // by stage
  const StageParts& parts() const { return parts_; }
  Transport* transport() const { return world_.transport(); }  // null: one process
  // Returns the parts of stages that this process runs, in order.
  std::vector<StageId> stages() const { return parts_.beginning_with(world_.ranks()); }
  const Device& device(const MeshCoordinate& rank) const { return world_.device(world_.mesh().rank(rank)); }
  std::vector<Device*> stage_devices(StageId id) const;  // of a part; empty for a part of another process
  std::vector<GenerationRankSetup> rank_setups(const GenerationJob& job, StageId id) const;

 private:
  GenerationRankSetup rank_setup(const GenerationJob& job, int rank) const;

  schedules::Plan plan_;
  std::vector<schedules::StageNeeds> needs_;
  std::vector<std::vector<Block>> blocks_;
  World world_;
  RankReach reach_;
  StageParts parts_;
  std::map<int, std::shared_ptr<Group>> tensor_groups_;  // by rank of this process
  std::map<int, std::size_t> group_bytes_;               // by rank of this process
};

}  // namespace pipetrain
