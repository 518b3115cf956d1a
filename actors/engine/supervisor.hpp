// The actor that starts steps, gathers the results of the stages, gives the one verdict, and watches for failures and
// stalls. The first failure stops the step everywhere; when everything has stopped, or after the grace time, the caller
// of the step gets it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/protocol.hpp"
#include "schedules/plan/hanging.hpp"

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
  struct WaitingReport {
    std::function<void(std::vector<std::string>)> answer;  // null: the supervisor's own watch for progress
    std::vector<std::string> lines;
    std::vector<schedules::RunningActions> running;
    std::int64_t completed = 0;
    int missing = 0;
    int watch = 0;
  };
  struct MemoryQuestion {
    std::shared_ptr<std::promise<std::vector<MemoryUse>>> answer;
    std::vector<std::vector<MemoryUse>> stages;
    int missing = 0;
  };
  struct Saving {
    std::shared_ptr<std::promise<std::vector<std::string>>> answer;
    std::vector<std::string> reports;  // by stage
    std::optional<Failure> failure;    // the first
    int missing = 0;
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
  void logged(Logged& message);
  void stopped(const Stopped& message);
  void actor_down(const caf::down_msg& message);
  void correct(Failed message);
  void end_when_explained();
  void end_failure();
  void ask_stages(std::function<void(std::vector<std::string>)> answer);
  void waiting(Waiting& message);
  void finish_step(const FinishStep& message);
  void leave_step();
  void look();
  void judge_progress(const WaitingReport& report);
  std::string hanging_workers(const WaitingReport& report) const;
  void ask_memory(AskMemory& message);
  void memory_reported(MemoryReport& message);
  void ask_state(AskState& message);
  void state_read(const StateRead& message);
  void ask_save(AskSave& message);
  void state_saved(StateSaved& message);
  void refuse_saving();
  std::exception_ptr what_failed() const;
  void refuse_questions();  // after a failure nothing answers them

  template <class Message>
  void to_stages(const Message& message) {
    for (auto& stage : stages_) send(stage, message);
  }
  // Joins the results of the parts of each stage, in order.
  template <class Element>
  std::vector<std::vector<Element>> join_parts(std::vector<std::vector<Element>> parts) const;
  std::size_t index(const StageId& id) const { return static_cast<std::size_t>(setup_.stages.rank(coordinate(id))); }
  StageId stage_at(std::size_t index) const;
  std::string label(std::size_t index) const;

  SupervisorSetup setup_;
  std::vector<caf::actor> stages_, feeders_;
  std::optional<Step> step_;
  std::map<std::int64_t, WaitingReport> reports_;  // reports that some stage has not answered yet, by number
  std::map<std::int64_t, MemoryQuestion> memory_reports_;
  std::map<std::int64_t, std::shared_ptr<std::promise<void>>> states_asked_;
  std::map<std::int64_t, Saving> saving_;
  std::int64_t reports_asked_ = 0;  // numbers the questions of all kinds
  std::optional<RunFailure> failure_;
  int watch_ = 0;  // the current series of looks
  bool finishing_ = false;
  bool leaving_ = false;
  std::int64_t completed_seen_ = -1;  // actions of all stages at the last look; -1: between steps
};

}  // namespace pipetrain
