// The actor that starts steps, gathers the results of the stages, gives the one verdict, and watches for failures and
// stalls. The first failure stops the step everywhere; when everything has stopped, or after the grace time, the caller
// of the step gets it.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "actors/engine/progress_watch.hpp"
#include "actors/engine/stage_questions.hpp"

namespace pipetrain {

struct SupervisorSetup {
  schedules::Placement placement;          // of the chunks on stages
  Mesh stages{MeshShape{}};                // {.dp = replicas, .pp = stages, .part = parts of each}
  std::chrono::milliseconds grace{10000};  // for stages to stop after a failure
  std::chrono::milliseconds stall{0};      // a step in which no action completes for this long fails; 0: never
  bool several_processes = false;          // the loss of a process may then explain an earlier failure of a stage
};

class SupervisorActor : public caf::event_based_actor {
 public:
  SupervisorActor(caf::actor_config& config, SupervisorSetup setup);

  caf::behavior make_behavior() override;
  void on_exit() override;
  const char* name() const override { return "supervisor"; }

 private:
  struct Step {
    StartStep start;
    std::vector<StageResult> results;
    int norms_missing = 0;
    int stages_missing = 0;
    bool judged = false;
    StepOutcome outcome;  // of every part, until the step ends
  };
  struct RunFailure {
    Failed first;
    std::vector<std::string> waiting;  // by stage
    std::vector<schedules::StageLog> logs;
    int still_running = 0;
    bool over = false;  // reported, or there is no step to report to
  };

  void start(StartStep& message);
  void norm_done(NormDone& message);
  void step_done(StepDone& message);
  void fail(Failed message);
  void logged(Logged message);
  void stopped(const Stopped& message);
  void actor_down(const caf::down_msg& message);
  void correct(Failed message);
  void end_when_explained();
  void end_failure();
  void finish_step(const FinishStep& message);
  void leave_step();
  void look();
  std::exception_ptr what_failed() const;

  template <class Message>
  void to_stages(const Message& message) {
    for (auto& stage : stages_.actors) send(stage, message);
  }

  SupervisorSetup setup_;
  StageRoster stages_;
  StageQuestions questions_;
  ProgressWatch watch_;
  std::vector<caf::actor> feeders_;
  std::optional<Step> step_;
  std::optional<RunFailure> failure_;
  std::int64_t last_look_ = -1;  // the number of its report; -1: none
  bool leaving_ = false;
};

}  // namespace pipetrain
