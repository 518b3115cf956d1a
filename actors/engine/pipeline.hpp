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

#include "actors/engine/run_failed.hpp"
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

// Receives the record of a run. Pipeline calls it on its caller's thread, and of several processes only in process 0.
class RunRecorder {
 public:
  virtual ~RunRecorder() = default;
  // Called before the first step, and again before the first step of each further membership, which has the same plan.
  virtual void begin(schedules::RecordedRun run) = 0;
  // Called after each step(), also of evaluations and of a step that failed. An exception from it leaves step(), unless
  // the step itself failed.
  virtual void step(schedules::RecordedStep step) = 0;
};

// A run over several processes, each of which builds its own part of the pipeline from the same options.
struct PipelineProcesses {
  std::shared_ptr<EngineChannel> channel;
  Transport* transport = nullptr;  // outlives the pipeline; null where all neighbouring stages share a process
  // {.dp = replicas, .pp = stages, .part = parts}: the process of each stage, or of each part of a stage whose ranks
  // are in several processes. All stages have the same number of parts, whose lanes correspond. Each part runs the
  // stage's whole plan with its own compute, in planned order only.
  Mesh parts{MeshShape{}};
  // Replaces SourceFactory where there are several parts: each part has a source, which fills the lanes of that part.
  std::function<std::shared_ptr<InputSource>(int replica, int part)> make_source;
};

struct PipelineOptions {
  schedules::Plan plan;  // with its end-of-step actions
  schedules::Order order = schedules::Order::planned;
  schedules::SlotLife slot_life;  // how long the computes read their inputs
  // By stage, the result of validate() for this plan, order and slot life; empty: the pipeline validates the plan.
  std::vector<schedules::StageNeeds> needs;
  int replicas = 1;
  // By stage: true where it begins a coming step before the verdict. Empty: all stages do. See step().
  std::vector<bool> begins_before_verdict = {};
  int run_ahead = 2;                        // actions launched and not completed, per stage
  std::chrono::milliseconds grace{10000};   // for stages to stop after a failure
  std::chrono::milliseconds stall{600000};  // a step in which no action completes for this long fails; 0: never
  // An actor system to run in, which must outlive the pipeline; null: the pipeline makes one. With `virtual_time` (CAF's
  // testing scheduler) nothing blocks: use start_step(), and run the scheduler yourself, also after the pipeline's end.
  caf::actor_system* system = nullptr;
  bool virtual_time = false;
  // Every training step follows the order recorded for its number; a step that was not recorded fails. The record must
  // have this plan, order and number of replicas. Null: `order` decides.
  std::shared_ptr<const schedules::RecordedOrder> replayed;
  // Null: stages log nothing. Set in all processes of a run or in none. start_step() alone leaves the logs in its outcome.
  std::shared_ptr<RunRecorder> recorder;
  // Null: this process runs the whole pipeline.
  std::optional<PipelineProcesses> processes;
  int membership = 1;  // of the run's processes, for its record
};

// `needs` says how many slots and activations the plan keeps at once.
using ComputeFactory = std::function<std::shared_ptr<StageCompute>(StageId id, const schedules::StageNeeds& needs)>;
using SourceFactory = std::function<std::shared_ptr<InputSource>(int replica)>;

// Call step(), start_step(), memory(), read_state(), save_state(), finish_step() and leave_step() in process 0 only. One step
// at a time, from one thread. waiting(), finish_step(), leave_step(), abort() and stop_stage() are thread-safe.
class Pipeline {
 public:
  // Validates the plan where its needs are not given (throws schedules::InvalidPlan), then makes this process's computes in
  // replica-major order and the slots of their queues. Returns when all processes have built theirs; throws when one cannot.
  Pipeline(PipelineOptions options, const ComputeFactory& make_compute, const SourceFactory& make_source);
  // Stops all actors and waits for them, unless virtual_time. In process 0 of several this ends the run.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Runs one step to its end. Throws RunFailed when anything failed; no further step is possible then.
  //  `coming` announces the next training step; all but what only backwards need (loss_scale) must be final. Stages
  // begin its forwards as soon as they have finished this step, even before the verdict; Verdict::confirms decides
  // whether these forwards stand. Requires planned order and whole stages (no parts), no replay, no recording, and a
  // plan without moves and custom actions.
  StepOutcome step(const StepInfo& info, Decide decide, const std::optional<StepInfo>& coming = {});
  std::future<StepOutcome> start_step(const StepInfo& info, Decide decide, const std::optional<StepInfo>& coming = {});

  // For every process but 0: runs the steps of process 0 and returns when it ends the run. Throws RunFailed.
  void follow();
  // Does the same as follow(), for at most this long. Returns true when the run has ended; do not call it again then, or after
  // an exception.
  bool follow_for(std::chrono::milliseconds patience);

  // Returns one line per stage: what it waits for now. Empty when the actors do not answer within two seconds.
  std::vector<std::string> waiting();
  // Returns the memory use of every rank, in rank order; empty for computes that do not report it. Throws RunFailed.
  std::vector<MemoryUse> memory();
  // Between steps only: fills `out` with a part of a stage's state. `out` must stay valid until the future is ready.
  // The future throws RunFailed on failure.
  std::future<void> read_state(StageId id, StatePart part, float* out);

  // Between steps, or after leave_step(): every stage's compute writes its present state to this folder, which all
  // processes must see, while later steps run (see StageCompute::save_state()). The future holds each compute's report,
  // by stage part, or throws the first failure, or RunFailed. One at a time.
  std::future<std::vector<std::string>> save_state(const std::string& where);

  // Makes the running step the last: it fails (ErrorKind::aborted) when no action completes for `patience`, or for the
  // stall time where that is shorter. Not for virtual_time.
  void finish_step(std::chrono::milliseconds patience);
  // Gives up the running step and all later ones: they throw StepLeft at once, except a step whose verdict has been
  // given, which ends as usual. Actions of the step that was left still run; only save_state() may be called meanwhile.
  // Not for virtual_time.
  void leave_step();
  // Ends the running step, or the next one, with this cause.
  void abort(std::exception_ptr cause);

  // Ends this stage's actor as if it had died. For tests of what follows.
  void stop_stage(StageId id);

  const std::vector<schedules::StageNeeds>& needs() const;

 private:
  std::unique_ptr<PipelineActors> actors_;
};

}  // namespace pipetrain
