// The actor of one pipeline stage of one replica. It translates between messages and its StageProtocol, which decides; gives
// the actions that the protocol chooses to the compute; and passes slots (StageSlots) between the compute and the queues. It
// never blocks.
#pragma once

#include <deque>
#include <optional>

#include "actors/engine/actor_runner.hpp"
#include "actors/engine/stage_record.hpp"
#include "actors/engine/stage_setup.hpp"
#include "actors/engine/stage_slots.hpp"
#include "schedules/protocol/stage_protocol.hpp"

namespace pipetrain {

class StageActor : public caf::event_based_actor, public BriefActor {
 public:
  StageActor(caf::actor_config& config, StageSetup setup);

  caf::behavior make_behavior() override;
  void on_exit() override;
  resume_result resume(caf::execution_unit* unit, std::size_t most_messages) override;
  const char* name() const override { return "stage"; }

 private:
  struct Launched {
    Launch launch;
    bool taken_back = false;
  };
  void begin(const BeginStep& message);
  void credit(Credit& message);
  void enqueued(const schedules::Action& action);
  void end_launch(const schedules::Action& action, const char* what);
  void completed(Completed& message);
  void verdict(const Verdict& verdict);
  void signalled(int custom);
  void abort(const Failure& cause);
  void fail(Failure cause);

  void pump();  // launches the actions that the protocol gives, reports the end of the step
  void launch_action(const schedules::Action& action);
  void begin_early();
  void report_if_stopped();
  const schedules::CustomAction& custom(int number) const { return setup_.plan->custom[static_cast<std::size_t>(number)]; }
  bool sends_when_enqueued() const { return setup_.order == schedules::Order::planned; }

  template <class Work>
  void guarded(Work work);
  // Adds an event to the log, if there is one: note(writer, now).
  template <class Note>
  void log(Note note) {
    if (record_.log) note(*record_.log, clock().now());
  }

  StageSetup setup_;
  schedules::StageProtocol protocol_;
  StageSlots slots_;
  std::deque<Launched> launched_;  // until they are enqueued and their slots are passed on
  StageRecord record_;
  std::optional<StepInfo> coming_;  // the next step
  bool begun_early_ = false;        // the compute knows of coming_
  int running_ = 0;                 // launched and not completed
  std::int64_t completed_ = 0;
  bool in_step_ = false, aborted_ = false, stop_reported_ = false;
  std::string waiting_at_abort_;
};

}  // namespace pipetrain
