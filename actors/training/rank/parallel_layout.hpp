// The layout of a job: the plan, validated once, the blocks of every stage, and the devices, groups and links of this
// process's ranks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/ranks/rank_reach.hpp"
#include "actors/ranks/run_processes.hpp"
#include "actors/ranks/stage_parts.hpp"
#include "actors/training/input/token_source.hpp"
#include "actors/training/rank/rank_setup.hpp"
#include "comm/world.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

class EngineChannel;
struct TrainJob;

// Returns the job's ranks: all in this process, or dealt to the job's processes in order. Throws Error(input) for a parallel
// size below 1, an ep that does not divide dp, fewer ranks than processes, and when the job names GPUs but not one for each
// rank of this process.
Mesh mesh_of(const TrainJob& job);

class ParallelLayout {
 public:
  // channel: of a job over several processes, all of which make their layouts at the same time and open the transport
  // between them. planned: all ranks are here, but their setups are those for these processes. Throws Error(input) when
  // the model cannot be split or computed in this way, or the schedule cannot be built.
  explicit ParallelLayout(const TrainJob& job, const std::shared_ptr<EngineChannel>& channel = nullptr,
                          const std::optional<PlannedProcesses>& planned = {});
  ParallelLayout(const ParallelLayout&) = delete;
  ParallelLayout& operator=(const ParallelLayout&) = delete;

  const Mesh& mesh() const { return world_.mesh(); }
  // Returns the parts of stages that this process runs, replica-major. A stage is one part, unless the ranks of some
  // stage run in several processes: then all stages are divided alike, so that the lanes of neighbours correspond.
  std::vector<StageId> stages() const { return cuts_.beginning_with(world_.ranks()); }
  Transport* transport() const { return world_.transport(); }  // null: one process
  // Returns the mesh {.dp = replicas, .pp = stages, .part = parts}, each part in the process of its ranks.
  Mesh stage_mesh() const { return cuts_.stage_mesh(); }
  StageParts::PartRank part_rank(const MeshCoordinate& at) const { return cuts_.part_rank(at); }
  const schedules::Plan& plan() const { return *plan_; }                      // the job's, where it has one
  const std::vector<schedules::StageNeeds>& needs() const { return needs_; }  // of the plan, by stage
  const std::vector<std::vector<Block>>& parts() const { return parts_; }     // by virtual stage
  std::vector<std::vector<Block>> chunks_of(int stage) const;
  const Device& device(const MeshCoordinate& rank) const { return world_.device(mesh().rank(rank)); }
  // Returns the handle of this process's first rank in a group of the first ranks of the processes that run ranks, in the
  // order in which they pass copies on; null where the job passes none on, and in a spare process.
  std::shared_ptr<Group> buddy_group() const { return buddies_; }
  const std::vector<int>& buddy_order() const { return buddy_order_; }  // of processes
  bool passes_copies() const { return passes_copies_; }  // the job passes some on, or would in its planned processes
  Device& first_device() const { return world_.device(world_.ranks().front()); }
  // Returns the setups of the ranks of this part of a stage.
  std::vector<RankSetup> rank_setups(const TrainJob& job, StageId id) const;
  // Returns the receivers that a source has to fill for a part of a stage; none for a part of another process.
  std::vector<TokenSource::Receiver> receivers(StageId id) const;

 private:
  // hosts: see Compression.
  void make_groups(bool tied, int hosts);
  void make_host_groups(const std::vector<int>& copies, int hosts);
  void make_buddy_group(const ControlPlane& control);
  // Gives this process's members their handles of a new group.
  void connect(const std::vector<int>& members, std::shared_ptr<Group> RankGroups::*which, GroupUse use = GroupUse::alone);
  void add_links(RankSetup& setup) const;  // to its neighbours in the pipeline
  RankSetup rank_setup(const TrainJob& job, int rank) const;

  std::shared_ptr<const schedules::Plan> plan_;
  std::vector<schedules::StageNeeds> needs_;
  std::vector<std::vector<Block>> parts_;  // by virtual stage
  World world_;
  RankReach reach_;
  StageParts cuts_;
  std::map<int, RankGroups> groups_;        // by rank of this process
  std::map<int, std::size_t> group_bytes_;  // by rank of this process; see RankSetup
  bool passes_copies_;                      // some state is in one process only
  std::vector<int> buddy_order_;
  std::shared_ptr<Group> buddies_;
};

}  // namespace pipetrain
