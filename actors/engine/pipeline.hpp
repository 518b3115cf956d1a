// The engine's front door: builds the actors of a plan around the computes you bring, and runs steps.
//
//   auto plan = schedules::build_1f1b({.stages = 2, .chunks = 1, .microbatches = 8});
//   Pipeline pipeline(options, make_compute, make_source);
//   pipeline.step({.step = 1, .microbatches = 8}, decide);
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "actors/engine/step.hpp"
#include "core/mesh.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/record/recording.hpp"

namespace caf {
class actor_system;
}
namespace pipetrain::schedules {
struct RecordedOrder;
}

namespace pipetrain {

class EngineChannel;
class PipelineActors;
class Transport;

// Where a run is recorded to. Called by Pipeline, in the thread that calls it; in process 0 of several only.
class RunRecorder {
 public:
  virtual ~RunRecorder() = default;
  // Before the first step.
  virtual void begin(schedules::RecordedRun run) = 0;
  // After each step(), also of evaluations; one that failed before it throws what failed. What this throws, step() throws, but
  // for a step that failed.
  virtual void step(schedules::RecordedStep step) = 0;
};

// A run over several processes, each of which builds the part of the pipeline that it runs, from the same options.
struct PipelineProcesses {
  std::shared_ptr<EngineChannel> channel;
  Transport* transport = nullptr;  // outlives the pipeline; null where no two neighbouring stages are in different processes
  // {.dp = replicas, .pp = stages, .part = parts}: the process of each stage, or of each part of a stage whose ranks run in
  // several; all stages have as many parts, whose lanes correspond. Each part runs the stage's whole plan with a compute of its
  // own: planned order only.
  Mesh parts{MeshShape{}};
  // In SourceFactory's stead where there are several parts, each of which has a source: fills the lanes of that part.
  std::function<std::shared_ptr<InputSource>(int replica, int part)> make_source;
};

struct PipelineOptions {
  schedules::Plan plan;  // with its end-of-step actions
  schedules::Order order = schedules::Order::planned;
  schedules::SlotLife slot_life;  // how long the computes read what they receive
  // What validate() has proved of this plan with this order and slot life, by stage; empty: the pipeline validates it.
  std::vector<schedules::StageNeeds> needs;
  int replicas = 1;
  // By stage: whether it begins a coming step before the verdict, for which it has time. Empty: all do. See step().
  std::vector<bool> begins_before_verdict = {};
  int run_ahead = 2;                        // actions launched and not completed, per stage
  std::chrono::milliseconds grace{10000};   // for stages to stop after a failure
  std::chrono::milliseconds stall{600000};  // a step in which no action completes for this long fails; 0: never
  // Run in this actor system instead of an own one; it must outlive the pipeline. With `virtual_time` (CAF's testing scheduler)
  // nothing blocks: use start_step(), and run the scheduler yourself, also after the pipeline's end.
  caf::actor_system* system = nullptr;
  bool virtual_time = false;
  // Every step of training is run in the order that was recorded for the step of its number; one that was not fails. Of a run
  // with this plan, order and number of replicas. Null: as `order` says.
  std::shared_ptr<const schedules::RecordedOrder> replayed;
  // Null: stages log nothing. In every process of several, or in none. start_step() alone leaves the logs with its outcome.
  std::shared_ptr<RunRecorder> recorder;
  // Null: this process runs the whole pipeline.
  std::optional<PipelineProcesses> processes;
};

// The needs say how many slots and activations the plan keeps at once.
using ComputeFactory = std::function<std::shared_ptr<StageCompute>(StageId id, const schedules::StageNeeds& needs)>;
using SourceFactory = std::function<std::shared_ptr<InputSource>(int replica)>;

// step(), start_step(), memory(), read_state(), save_state(), finish_step(), leave_step(): in process 0 of several only. One
// step at a time, from one thread. waiting(), finish_step(), leave_step(), abort() and stop_stage(): from any thread.
class Pipeline {
 public:
  // Validates the plan where its needs are not given (throws schedules::InvalidPlan), makes the computes in replica-major order
  // and their queues' slots. Over several processes only this one's; returns when all have built theirs, and throws when one
  // cannot.
  Pipeline(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source);
  // Stops all actors and waits for them, unless virtual_time. In process 0 of several this ends the run.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Runs one step to its end. Throws RunFailed when anything failed; no further step is possible then. `coming`: a step of
  // training follows this one of training at once, if any does, with this info but for what only backwards need (loss_scale):
  // stages begin with its forwards as soon as they are done with this one, before the verdict too. Whether they stand is for
  // Verdict::confirms to say. Planned order, not replayed, not recorded, plans without moves and custom actions, stages whole:
  // not in parts.
  StepOutcome step(const StepInfo& info, Decide decide, const std::optional<StepInfo>& coming = {});
  std::future<StepOutcome> start_step(const StepInfo& info, Decide decide, const std::optional<StepInfo>& coming = {});

  // In every process but 0, which runs the steps: returns when process 0 ends the run. Throws RunFailed.
  void follow();
  // As follow(), for this long at most: whether the run has ended. Not again once it has, or has thrown.
  bool follow_for(std::chrono::milliseconds patience);

  // One line a stage: what it waits for now. Empty when the actors do not answer within two seconds.
  std::vector<std::string> waiting();
  // What every rank's device holds, in rank order; empty for computes that do not report it. Throws RunFailed.
  std::vector<MemoryUse> memory();
  // Between steps only: fills `out` with a part of what a stage's compute keeps; `out` stays until the future is ready. It
  // throws RunFailed when that fails.
  std::future<void> read_state(StageId id, StatePart part, float* out);

  // Between steps, or after one that was left: every stage's compute writes what it keeps now to this folder, which all
  // processes see, while later steps run: see StageCompute::save_state(). What each said of it, by stage part; the future
  // throws what the first one that failed threw, or RunFailed. One at a time.
  std::future<std::vector<std::string>> save_state(const std::string& where);

  // The running step is to be the last: from now on it fails (ErrorKind::aborted) when no action completes for this long, or
  // for the stall time where that is shorter. Not for virtual_time.
  void finish_step(std::chrono::milliseconds patience);
  // No step is wanted any more: the running one, and each later one, throws StepLeft at once, unless its verdict has been
  // given: that one ends as usual. Its actions go on beside what follows, which may be save_state() and nothing else. Not for
  // virtual_time.
  void leave_step();
  // Ends the running step, or the next one, with this cause.
  void abort(std::exception_ptr cause);

  // Ends this stage's actor as if it had died, so that tests see what follows.
  void stop_stage(StageId id);

  const std::vector<schedules::StageNeeds>& needs() const;

 private:
  std::unique_ptr<PipelineActors> actors_;
};

}  // namespace pipetrain
