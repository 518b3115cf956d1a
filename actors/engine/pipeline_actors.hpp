// Makes, connects and ends the actors of a pipeline, or of the part of it that runs in this process.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "actors/engine/pipeline_queues.hpp"

namespace pipetrain {

class PipelineActors {
 public:
  PipelineActors(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source);
  ~PipelineActors();
  PipelineActors(const PipelineActors&) = delete;
  PipelineActors& operator=(const PipelineActors&) = delete;

  const caf::actor& supervisor() const { return supervisor_; }  // a RemoteSupervisorActor outside process 0
  const caf::actor& stage(StageId id) const { return stages_[places_.index(id)]; }
  const std::vector<schedules::StageNeeds>& needs() const { return needs_; }
  bool leads() const { return places_.process == 0; }
  void follow();
  bool follow_for(std::chrono::milliseconds patience);
  RunRecorder* recorder() const { return options_.recorder.get(); }

 private:
  // CAF aborts or hangs when it can start only some of its threads: the scheduler's, a clock and a printer. So this
  // tries them first.
  struct OwnSystem {
    OwnSystem();
    caf::actor_system_config config;
    std::optional<caf::actor_system> system;
  };
  const schedules::Placement& placement() const { return places_.placement(); }
  bool crosses() const { return options_.processes.has_value(); }

  void build(const ComputeFactory& make_compute, const SourceFactory& make_source);
  schedules::RecordedRun recorded_run() const;
  void spawn_supervisor();
  void spawn_stage(const StageId& id);
  void spawn_remote_actors();
  void spawn_feeders(const SourceFactory& make_source);
  void attach();
  void on_abort(const Failure& cause) const;
  void leave_run();
  void stop();

  PipelineOptions options_;  // without the plan
  StagePlaces places_;
  std::vector<schedules::StageNeeds> needs_;
  std::unique_ptr<OwnSystem> own_system_;
  SpawnedActors actors_;

  PipelineQueues::Computes computes_;  // of this process
  PipelineQueues queues_;
  caf::actor supervisor_;
  // By rank of the mesh of parts; remote stand-ins in process 0 and null elsewhere for stages of other processes.
  std::vector<caf::actor> stages_;
  PipelineQueues::Feeders feeders_;  // of this process
  std::vector<caf::actor> remote_feeders_;
  std::optional<std::future<void>> end_;
};

}  // namespace pipetrain
