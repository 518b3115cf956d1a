// A membership: the mesh, transport, groups, computes and actors with which the living processes of a run train it. They
// are made together and ended together; the trainer, its records and the copies of states outlive them, and a later
// membership continues from these copies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/training/job/train_job.hpp"
#include "actors/training/rank/parallel_layout.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "actors/training/run/gathered_copies.hpp"
#include "actors/training/run/step_sources.hpp"

namespace pipetrain {

class EngineChannel;

class Membership {
 public:
  struct Setup {
    std::shared_ptr<EngineChannel> channel;  // null: one process
    std::shared_ptr<const StepSamples> training;
    std::shared_ptr<const StepSamples> evaluation;  // null: nothing is evaluated
    KeptCopies* copies = nullptr;                   // null: no copies are kept
    std::optional<std::int64_t> continued;          // continue from the copies after this step
    int number = 1;                                 // counted from 1
  };
  // The job and the copies must outlive it. Every process of the run makes it at about the same time. Throws as Trainer does.
  Membership(const TrainJob& job, const Setup& setup);
  // Ends all actors and work before anything is freed. In process 0 of several this ends the run for the others, unless
  // it has failed.
  ~Membership();
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  const ParallelLayout& layout() const { return layout_; }
  const StepSources& sources() const { return *sources_; }
  Pipeline& pipeline() { return *pipeline_; }

 private:
  void check_memory() const;
  void build_computes();
  void open_buddies();
  std::vector<RankSetup> rank_setups(StageId id) const;
  void build_pipeline();
  PipelineProcesses processes();

  const TrainJob& job_;
  const Setup setup_;
  ParallelLayout layout_;                                      // has devices and groups, so it outlives the computes
  std::shared_ptr<BuddyPlace> buddies_;                        // null: no copies are passed on
  std::vector<std::shared_ptr<TransformerCompute>> computes_;  // replica-major
  std::optional<StepSources> sources_;
  std::unique_ptr<Pipeline> pipeline_;  // declared after the computes, so that its actors end first
};

}  // namespace pipetrain
