// The machine of one stage: events in, actions out. It never blocks and knows no time, no thread and no tensor. The stage actor
// and the simulator both drive this very class, so what one does the other does.
//
// Drive it so: report what happened (begin_step, input_arrived, ...), then call next() until it gives nothing.
// Not thread-safe; each stage of each replica has its own.
//
// Stages do not begin a step at the same instant: a fast neighbour may send the first inputs of the coming step before this
// stage's begin_step(). Such inputs are kept for it. Nobody can be further ahead, because every stage takes part in the
// verdict.
//
// Where a step's caller knows that another one follows (NextStep), a stage that has launched its N goes on with the forwards
// that its list begins with, as inputs and credits come. Before the verdict it computes them from a preview of the weights (V).
// A verdict that confirms V lets them stand, any other takes them back: O runs (or is skipped), then they are launched again.
// What depends on a preview is provisional for whoever gets it: its driver tells, or keeps outputs back until the verdict.
// Backwards wait for begin_step(). See early_forwards.hpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schedules/plan/order.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// What follows a step, as far as its caller can promise.
enum class NextStep : std::uint8_t {
  unknown,
  after_verdict,  // a step of training, whose forwards begin once this stage has the verdict
  at_once,        // likewise, and before it too
};

// Which step a launched action belongs to.
enum class StepOf : std::uint8_t {
  running,
  coming,      // launched early
  taken_back,  // launched early, for nothing: it will be launched again
};

// What arrives at a chunk. The first virtual stage's activation is the tokens; only the last one has targets.
enum class InputKind : std::uint8_t { activation, gradient, target };

class StageProtocol {
 public:
  // run_ahead: how many launched actions may be incomplete at once (2: one running, one queued behind it), not counting moves,
  // which run beside them.
  // The plan must have passed validate() for this order. Throws std::invalid_argument when the stage is not in the plan,
  // run_ahead is below 1, or Order::ready is asked for and the plan has no ready rule.
  StageProtocol(std::shared_ptr<const Plan> plan, int stage, Order order, int run_ahead = 2);
  ~StageProtocol();
  StageProtocol(StageProtocol&&) noexcept;
  StageProtocol& operator=(StageProtocol&&) noexcept;

  // Events. An event that cannot be (an input twice, a completion of what was not launched) throws std::logic_error naming it.

  // Every action of the previous step must have been launched, or the step aborted. An evaluation keeps the planned order.
  // `list`: what the step runs, in this order, in place of the plan's list and of choosing; the plan's actions, in an order
  // that its needs serve (but for an O that the verdict skips). It outlives the step.
  // With another NextStep than unknown the step is one of training in the planned order, of a plan without moves and custom
  // actions and without a list of its own (std::invalid_argument), and a step of training comes next.
  void begin_step(StepKind kind = StepKind::training, const std::vector<Action>* list = nullptr,
                  NextStep next = NextStep::unknown);
  // The input of this chunk and microbatch can be read: its producer was enqueued (planned) or completed (ready). Before
  // begin_step(), and once all compute of a step was launched, it belongs to the coming step; so does, where one was promised,
  // what forwards need and comes for the second time. Returns which step it is of.
  StepOf input_arrived(InputKind kind, int chunk, int microbatch);
  // This activation for the coming step was provisional, and the verdict took it back: it will arrive again.
  void input_taken_back(int chunk, int microbatch);
  // A slot of the queue that takes this chunk's output of that kind is free: activation sent down, gradient sent up. Credits
  // start at none and outlive steps: give one for every slot at set-up.
  void credit_returned(InputKind output, int chunk);
  // Gives the custom actions of other stages that wait for this end, by number: tell their stages with signalled(). Valid as
  // long as the protocol.
  std::span<const std::int32_t> completed(const Action& action);
  // Another stage's action has completed that this stage's custom action of this number waits for. May come before
  // the step begins.
  void signalled(int custom);
  // Allows O, or ends the step without it. `confirms`: weights step as V took for granted. Returns whether what was begun early
  // is taken back: the driver gives back the credits of outputs that it kept, and takes back inputs that were provisional.
  bool verdict(bool apply, bool confirms = false);
  // No further actions until the next begin_step(). Inputs that arrive in between belong to that step, so nothing of the
  // aborted one may still be on its way.
  void abort();

  // The next action to launch now; null where there is none. It counts as launched: its inputs and its output's credit are
  // taken. Valid until the next call.
  const Action* next();
  // Of the action that next() gave last.
  bool is_early() const;
  // Likewise: the first of a braid, whose second is there to be launched at once. Both count as one towards run_ahead. Only
  // where a step runs the plan's own list.
  bool begins_braid() const;
  // Of a launched action that has not completed; of two that are equal, of the one that was launched first.
  StepOf step_of(const Action& action) const;
  bool waits_for_verdict() const;  // all but O was launched, and the verdict has not come

  bool step_done() const;               // every action of the step has completed, or abort() was called
  int in_flight() const;                // actions launched and not completed
  std::vector<Action> running() const;  // these actions, oldest first of each step
  // One line for a person: what the stage would do next and what it waits for, e.g. "B3 waits for the gradient of microbatch
  // 3".
  std::string waiting_for() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace pipetrain::schedules
