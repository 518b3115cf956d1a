// The state machine of one stage: events in, actions out. It never blocks and knows no time, no thread and no tensor.
// The stage actor and the simulator both drive this class, so they behave alike.
//
// Report what happened (begin_step, input_arrived, ...), then call next() until it returns null.
// Not thread-safe; each stage of each replica has its own.
//
// Stages do not begin a step at the same instant: a fast neighbour may send the first inputs of the coming step before
// this stage's begin_step(). Such inputs are kept for it. No stage can be further ahead, because every stage takes part
// in the verdict.
//
// When the caller promises a following step (NextStep), a stage that has launched its N continues with the first
// forwards of its list, as inputs and credits arrive. Before the verdict it computes them from a preview of the weights
// (V). A verdict that confirms V lets them stand; any other takes them back: O runs (or is skipped), then they are
// launched again. Outputs that depend on a preview are provisional for their receiver: the driver marks them, or holds
// them until the verdict. Backwards wait for begin_step(). See early_forwards.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schedules/plan/order.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// The step that follows, as far as the caller can promise it.
enum class NextStep : std::uint8_t {
  unknown,
  after_verdict,  // a step of training, whose forwards begin once this stage has the verdict
  at_once,        // a step of training, whose forwards may also begin before the verdict
};

// The step that a launched action belongs to.
enum class StepOf : std::uint8_t {
  running,
  coming,      // launched early
  taken_back,  // launched early in vain; it will be launched again
};

// The kinds of inputs of a chunk. The first virtual stage's activation is the tokens; only the last one has targets.
enum class InputKind : std::uint8_t { activation, gradient, target };

class StageMachine;

class StageProtocol {
 public:
  // run_ahead: how many launched actions may be incomplete at once (2: one running, one queued after it). Moves do not count,
  // because they run beside the others. The plan must have passed validate() for this order. Throws std::invalid_argument when
  // the stage is not in the plan, run_ahead is below 1, or Order::ready is asked for and the plan has no ready rule.
  StageProtocol(std::shared_ptr<const Plan> plan, int stage, Order order, int run_ahead = 2);
  ~StageProtocol();
  StageProtocol(StageProtocol&&) noexcept;
  StageProtocol& operator=(StageProtocol&&) noexcept;

  // Events. An impossible event (an input twice, completion of an action that was not launched) throws std::logic_error
  // naming it.

  // Every action of the previous step must have been launched, or the step aborted. An evaluation keeps the planned
  // order. `list`: the actions of the step in their order, in place of the plan's list and of choosing; they must be
  // the plan's actions, in an order that its needs suffice for (O may be missing if the verdict skips it). It must
  // outlive the step. With a NextStep other than unknown, this and the next step must be training steps in planned
  // order, of a plan without moves and custom actions, and without `list` (std::invalid_argument).
  void begin_step(StepKind kind = StepKind::training, const std::vector<Action>* list = nullptr,
                  NextStep next = NextStep::unknown);
  // The input of this chunk and microbatch can be read: its producer was enqueued (planned) or completed (ready). It
  // belongs to the coming step before begin_step(), once all compute of a step was launched, and, where a following
  // step was promised, when a forward's input arrives for the second time. Returns the step that it belongs to.
  StepOf input_arrived(InputKind kind, int chunk, int microbatch);
  // This activation of the coming step was provisional, and the verdict took it back: it will arrive again.
  void input_taken_back(int chunk, int microbatch);
  // A slot for this chunk's output of that kind is free: an activation for the next stage, a gradient for the previous
  // one. There are no credits at first, and they outlive steps: give one for every slot at set-up.
  void credit_returned(InputKind output, int chunk);
  // Returns the numbers of the custom actions of other stages that wait for this end: call signalled() on their stages.
  // Valid as long as the protocol.
  std::span<const std::int32_t> completed(const Action& action);
  // An action of another stage has completed for which this stage's custom action of this number waits. May come before
  // the step begins.
  void signalled(int custom);
  // Allows O, or ends the step without it. `confirms`: the weights will be those of V. Returns whether early work is
  // taken back: the driver then returns the credits of outputs that it held, and takes back provisional inputs.
  bool verdict(bool apply, bool confirms = false);
  // Gives no further actions until the next begin_step(). Inputs that arrive in between belong to that step, so no
  // input of the aborted one may still be on its way.
  void abort();

  // Returns the next action to launch now, or null. It counts as launched: its inputs and its output's credit are
  // taken. Valid until the next call.
  const Action* next();
  // True when the last action of next() belongs to the coming step.
  bool is_early() const;
  // True when the last action of next() is the first of a braid, whose second can be launched at once. Both count as
  // one for run_ahead. Only where a step runs the plan's own list.
  bool begins_braid() const;
  // For a launched action that has not completed; of two equal ones, the one that was launched first.
  StepOf step_of(const Action& action) const;
  bool waits_for_verdict() const;  // all but O was launched, and the verdict is missing

  bool step_done() const;               // every action of the step has completed, or abort() was called
  int in_flight() const;                // actions launched and not completed
  std::vector<Action> running() const;  // these actions, oldest first of each step
  // Describes in one line what the stage would do next and what it waits for, e.g. "B3 waits for the gradient of microbatch 3".
  std::string waiting_for() const;

 private:
  std::unique_ptr<StageMachine> machine_;
};

}  // namespace pipetrain::schedules
