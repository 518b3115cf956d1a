// The actor of one pipeline stage of one replica. It translates between messages and its StageProtocol, which decides; gives
// the actions that the protocol chooses to the compute; and moves slots between the compute and the queues. It never blocks.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "actors/engine/actor_runner.hpp"
#include "actors/engine/protocol.hpp"
#include "schedules/plan/plan.hpp"
#include "schedules/protocol/stage_protocol.hpp"
#include "schedules/record/log_codec.hpp"
#include "schedules/record/recorded_order.hpp"

namespace pipetrain {

struct StageSetup {
  StageId id;
  std::shared_ptr<const schedules::Plan> plan;
  schedules::Order order = schedules::Order::planned;
  schedules::SlotLife slot_life;
  int run_ahead = 2;
  bool begins_before_verdict = true;                         // see PipelineOptions
  bool record = false;                                       // log inputs and decisions
  std::shared_ptr<const schedules::RecordedOrder> replayed;  // see PipelineOptions
  std::shared_ptr<StageCompute> compute;
  caf::actor supervisor;

  struct ChunkQueues {
    caf::actor activations, gradients, targets;       // queues that this chunk consumes from; null where it has none
    caf::actor next_activations, previous_gradients;  // queues that it fills
    // The chunks that consume its outputs where they belong to this stage, else -1: they learn of the input at once, so
    // that the next decision includes it.
    int own_next_chunk = -1, own_previous_chunk = -1;
    bool next_is_elsewhere = false;  // in another process, whose inputs are never taken back
  };
  std::vector<ChunkQueues> chunks;
};

class StageActor : public caf::event_based_actor, public BriefActor {
 public:
  StageActor(caf::actor_config& config, StageSetup setup);

  caf::behavior make_behavior() override;
  void on_exit() override;
  resume_result resume(caf::execution_unit* unit, std::size_t most_messages) override;
  const char* name() const override { return "stage"; }

 private:
  // Slots of queues, indexed by microbatch.
  struct InputSlots {
    std::vector<SlotHandle> activations, gradients, targets;
    std::vector<bool> provisional;  // of activations: true where they depend on the verdict; may be shorter
    std::vector<SlotHandle>& of(schedules::InputKind kind);
    bool is_provisional(int microbatch) const {
      return static_cast<std::size_t>(microbatch) < provisional.size() && provisional[static_cast<std::size_t>(microbatch)];
    }
  };
  // The slots that this chunk holds, and the free slots of the queues that it fills.
  struct ChunkSlots {
    InputSlots running, coming;  // by step
    std::deque<SlotHandle> activation_credits, gradient_credits;
  };
  struct Launched {
    Launch launch;
    bool taken_back = false;
  };
  // An activation that was taken back while a forward still reads it.
  struct Stale {
    schedules::Action reader;
    SlotHandle slot;
  };

  void begin(const BeginStep& message);
  const std::vector<schedules::Action>* replayed_list(const StepInfo& step) const;  // null: the plan's list
  void take_input(Arrived message);
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
  void end_early_launch(Launch& launch);  // of an action that was enqueued before the verdict
  void take_back_early();
  void take_back_inputs(int chunk);
  void end_stale(const schedules::Action& reader);
  void give_back(Launch& launch);  // takes back its slots, so that it can be launched again
  void add_inputs(Launch& launch);
  void add_output(Launch& launch);
  void send_output(Launch& launch, std::int64_t depends_on = 0);
  void pass_on(Launch& launch);  // sends the output on and returns the released slots
  void report_if_stopped();
  const schedules::CustomAction& custom(int number) const { return setup_.plan->custom[static_cast<std::size_t>(number)]; }
  bool sends_when_enqueued() const { return setup_.order == schedules::Order::planned; }

  template <class Work>
  void guarded(Work work);
  // Adds an event to the log, if there is one: note(writer, now).
  template <class Note>
  void log(Note note) {
    if (log_) note(*log_, clock().now());
  }
  schedules::StageLog take_log(const std::vector<TracedAction>& actions);

  StageSetup setup_;
  schedules::StageProtocol protocol_;
  schedules::SlotLife slot_life_;  // of the running step
  std::vector<ChunkSlots> chunks_;
  std::deque<Launched> launched_;  // until they are enqueued and their slots are passed on
  std::vector<TracedAction> trace_;
  std::optional<StepInfo> coming_;  // the next step
  bool begun_early_ = false;        // the compute knows of coming_
  // Numbers of training steps: the running one; the last one whose verdict took early work back.
  std::int64_t step_ = 0, refused_ = 0;
  bool judged_ = false;         // the running step has its verdict
  std::vector<Launch> unsent_;  // early forwards whose slots wait for the verdict
  std::vector<Stale> stale_;
  std::vector<Arrived> fresh_;             // replace provisional inputs once the verdict is known here
  std::vector<TracedAction> early_trace_;  // of the coming step
  std::optional<schedules::StageLogWriter> log_;
  int running_ = 0;  // launched and not completed
  std::int64_t completed_ = 0;
  bool in_step_ = false;
  bool aborted_ = false;
  bool stop_reported_ = false;
  std::string waiting_at_abort_;
};

}  // namespace pipetrain
