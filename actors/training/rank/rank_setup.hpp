// The setup of one rank: its place, its devices and groups, its part of the model and of the plan. Plain values, which
// the layout fills in.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/ranks/rank_lanes.hpp"
#include "actors/training/copies/buddy_ring.hpp"
#include "actors/training/copies/state_copies.hpp"
#include "actors/training/copies/step_records.hpp"
#include "actors/training/input/step_samples.hpp"
#include "actors/training/job/train_job.hpp"
#include "core/process_group.hpp"
#include "model/context/context_part.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/stage_model.hpp"
#include "schedules/plan/validate.hpp"

namespace pipetrain {

// The groups that a rank is a member of; null where the group would have one member.
struct RankGroups {
  std::shared_ptr<Group> tensor;       // the ranks of the stage that have the same part of every sequence
  std::shared_ptr<Group> context;      // the ranks of the stage that have the same weights, in the order of their parts
  std::shared_ptr<Group> data;         // the ranks of all replicas that have the same weights: see weight_copies()
  std::shared_ptr<Group> experts;      // the ranks of the stage that together have all experts, in their order
  std::shared_ptr<Group> expert_data;  // the ranks of all replicas that have the same experts: see expert_copies()
  std::shared_ptr<Group> within_host, between_hosts;  // parts of `data`, see Compression::hosts
  std::shared_ptr<Group> tied;  // with tied embeddings: the two stages of schedules::tied_sum_places(), in its order

  // Ends the collectives of all groups with this failure. Thread-safe.
  void abort(const std::exception_ptr& cause) const {
    for (const auto& group : {tensor, context, data, experts, expert_data, within_host, between_hosts, tied})
      if (group) group->abort(cause);
  }
};

// The settings are those of the whole run, but for the fault, which only its own rank has.
struct RankSetup : MeshRank, JobSettings {
  RankGroups groups;
  ModelConfig config;
  std::vector<std::vector<Block>> chunks;         // of this stage
  ContextPart context;                            // of each sequence
  MicrobatchShape shape;                          // the largest one, of this part; of a slice where there are several
  std::int64_t sequence = 1;                      // the largest sequence of this part, with all its slices
  int microbatches = 1;                           // of a step; with slices, the number of slices
  int slices = 1;                                 // of each microbatch
  bool braids = false;                            // its plan has braids
  bool isolates_documents = false;                // of the data
  std::shared_ptr<const StepSamples> training;    // null: the rank is only estimated
  std::shared_ptr<const StepSamples> evaluation;  // null: nothing is evaluated
  // True when every replica runs its last backward actions in the same order, so that gradients may be summed as they are made.
  bool same_order = true;
  int replicas = 1, replica = 0;  // see weight_copies()
  ExpertPart experts;
  int expert_replicas = 1, expert_replica = 0;  // see expert_copies()
  bool expert_biases = false;                   // of the choices
  int data_replica = 0;                         // the replica whose samples it takes: see data_replica()
  // The actions of its stage in every step, in order; empty where the order is not known in advance.
  std::vector<schedules::Action> actions;
  schedules::StageNeeds needs;
  WrapOps wrap_ops;                      // may be null
  bool saves = false;                    // keeps host memory for a snapshot of its states
  std::shared_ptr<KeptStates> kept;      // see TrainJob
  std::shared_ptr<StateCopies> copies;   // receives a copy of its state after each step; null: none is kept
  std::shared_ptr<StepRecords> records;  // receives the record that a training step brings; not null where copies are kept
  ContinuedState continued;              // the copy that it continues from
  int kept_copies = 0;                   // copies of its state for which the host needs memory, with those at a buddy
  // Opened by the membership once all ranks are built; passes the copies on. Empty: copies stay in this process.
  std::shared_ptr<BuddyPlace> buddies;
};

// Returns what a rank will allocate, without allocating it. A GPU's libraries know their share only when they have
// planned for the shapes; here it is estimated.
MemoryUse estimate_memory(const RankSetup& setup);

}  // namespace pipetrain
