// A pipeline whose computes and inputs are another program's code: refuses calls out of order, and ends only when none
// of that code is running.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "actors/engine/pipeline.hpp"
#include "bindings/guest/action_threads.hpp"
#include "bindings/guest/callback_watch.hpp"
#include "bindings/guest/guest_answers.hpp"
#include "bindings/guest/guest_processes.hpp"
#include "bindings/guest/guest_stage.hpp"
#include "bindings/guest/joint_steps.hpp"
#include "bindings/guest/step_hooks.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// Makes the code of a stage, which answers only through `stage`; calls outside the pipeline's are counted with `watch`.
// processes: null where all stages run in this process.
struct GuestRequest {
  StageId id;
  const schedules::StageNeeds& needs;
  std::shared_ptr<GuestAnswers> stage;
  std::shared_ptr<CallbackWatch> watch;
  std::shared_ptr<GuestProcesses> processes;
};
using GuestFactory = std::function<Guest(const GuestRequest&)>;

// Any thread may call everything but step(); one thread at a time may call step(), else Misuse. In a process forked from the
// one that made it, which has none of its threads, everything but close() is Misuse, and close() frees nothing.
class GuestPipeline {
 public:
  // Appends N and O to a plan without them. Throws Error, InvalidPlan. processes: set if several processes make, step and close
  // the pipeline together; each then makes guests for its own stages only.
  GuestPipeline(PipelineOptions options, const GuestFactory& make_guest, const SourceFactory& make_source,
                std::shared_ptr<GuestProcesses> processes = nullptr);
  // Does the same as close(), but does not wait for other processes. If the guest's code is still running, leaks everything
  // that it may use.
  ~GuestPipeline();

  // Runs a step of training or, as info.kind says, of evaluation: only forwards and N, and no O whatever `decide`
  // returns. Throws RunFailed, and Misuse during another step, inside the guest's code, and after close(). Over several
  // processes all make the same steps; `decide` is called only in process 0, and all return its verdict.
  StepEnd step(StepInfo info, Decide decide, const StepHooks& hooks = {});
  void abort(const std::string& why);
  // Empty where the stages do not answer within two seconds.
  std::vector<std::string> waiting();
  // Returns the timeline of the latest successful step of training or evaluation. Throws Misuse before that, and in every
  // process but 0.
  schedules::Timeline timeline() const;
  // Ends the actors and releases the computes. Throws Misuse, and changes nothing, during a step and where a call into the
  // guest's code has not returned within the grace time. The other processes of a pipeline wait until process 0 closes its own.
  void close();

  const schedules::Plan& plan() const { return plan_; }

 private:
  void refuse_forked(const char* call) const;
  std::shared_ptr<Pipeline> open_pipeline(const char* call) const;
  Decide watched(schedules::StepKind kind, Decide decide, std::shared_ptr<StepEnd> end) const;
  bool follows() const { return joint_ && joint_->follows(); }
  void close(bool waits);
  void close_stages();

  const pid_t made_in_ = getpid();
  schedules::Plan plan_;
  std::chrono::milliseconds grace_;
  std::shared_ptr<CallbackWatch> watch_ = std::make_shared<CallbackWatch>();
  std::shared_ptr<ActionThreads> threads_ = std::make_shared<ActionThreads>();
  std::vector<std::shared_ptr<GuestAnswers>> stages_;
  std::shared_ptr<GuestProcesses> processes_;  // outlives the pipeline
  std::shared_ptr<JointSteps> joint_;          // of several processes; null in a pipeline of one
  std::int64_t rounds_ = 0;                    // steps that were begun; only the thread in step() uses it
  mutable std::mutex mutex_;                   // guards the members below
  std::shared_ptr<Pipeline> pipeline_;
  bool busy_ = false;  // with a step, or with its end
  std::optional<StepOutcome> latest_;
  schedules::StepKind latest_kind_ = schedules::StepKind::training;
};

}  // namespace pipetrain
