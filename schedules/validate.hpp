// Proves a plan before it runs, and computes what the run must reserve for it: the slots of its queues and the microbatches
// that each stage keeps.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "schedules/plan.hpp"
#include "schedules/stage_protocol.hpp"

namespace pipetrain::schedules {

// The plan breaks a rule; what() names the stage and the action in its first line, and below shows the place on the printed
// grid.
class InvalidPlan : public std::runtime_error {
 public:
  // stage: whose list is at fault, -1 when it is the whole plan.
  InvalidPlan(std::string fault, int stage, const std::string& grid)
      : std::runtime_error(fault + "\n" + grid), fault_(std::move(fault)), stage_(stage) {}
  const std::string& fault() const noexcept { return fault_; }  // the first line alone
  int stage() const noexcept { return stage_; }

 private:
  std::string fault_;
  int stage_;
};

// Until which action of its microbatch a chunk's received input must stay in its slot. The compute decides (forward: it copies
// or needs it no more; input_grad: until B or I; weight_grad: until B or W). Targets stay as long as activations.
struct SlotLife {
  ActionKind activation = ActionKind::input_grad;
  ActionKind gradient = ActionKind::weight_grad;  // not forward
};

// Whether an input that is read until `last_reader` is read no more after an action of this kind.
constexpr bool ends_life(ActionKind last_reader, ActionKind kind) {
  if (last_reader == ActionKind::forward) return kind == ActionKind::forward;
  return last_reader == ActionKind::weight_grad ? gives_weight_grad(kind) : gives_input_grad(kind);
}

struct ChunkNeeds {
  int activation_slots = 0;           // slots of the queue that receives this chunk's activations (tokens for the first)
  int gradient_slots = 0;             // of the queue that receives its gradients; 0 for the last virtual stage
  int target_slots = 0;               // of the queue that receives its targets; 0 except for the last virtual stage
  int peak_activations = 0;           // most microbatches between F and the end of B or W
  int peak_pending_weight_grads = 0;  // most microbatches between I and the end of W
  bool operator==(const ChunkNeeds&) const = default;
};

struct StageNeeds {
  std::vector<ChunkNeeds> chunks;
  // Most microbatches at once over all chunks, in whole-stage units: each chunk counts 1 / chunks.
  double peak_activations = 0;
  bool operator==(const StageNeeds&) const = default;
};

// Checks that every action is there exactly once, inputs come before use, forwards, backwards and weight gradients of a chunk
// each keep microbatch order, the collectives of all stages embed in one global order, and that nothing deadlocks with exactly
// the slots returned, for whatever speeds. Returns the needs per stage for the given way of choosing; for Order::ready they
// bound every order that the rule can take.
//
// Planned slots are those of the as-soon-as-possible execution with F = I = W = 1 and two actions launched ahead, so that no
// credit delays it. They suffice at any speed: with fixed lists, progress does not depend on time (a marked graph).
// Throws InvalidPlan, or std::invalid_argument for an impossible SlotLife or Order::ready without a rule.
std::vector<StageNeeds> validate(const Plan& plan, Order order = Order::planned, const SlotLife& life = {});

// The same proof alone, in little more memory than the plan's.
void check_plan(const Plan& plan);

// Throws InvalidPlan when the planned order can stop for ever with these slots. The plan must have passed validate().
void check_progress(const Plan& plan, const std::vector<StageNeeds>& needs, const SlotLife& life = {});

}  // namespace pipetrain::schedules
