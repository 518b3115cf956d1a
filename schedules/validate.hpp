// Proves a plan before it runs, and computes what the run must reserve for it.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "schedules/plan.hpp"
#include "schedules/protocol.hpp"

namespace pipetrain::schedules {

// Until which action of its microbatch a chunk's received input must stay in its slot. The compute decides (forward: it copies
// or needs it no more; input_grad: until B or I; weight_grad: until B or W).
struct SlotLife {
  ActionKind activation = ActionKind::input_grad;
  ActionKind gradient = ActionKind::weight_grad;
};

struct ChunkNeeds {
  int activation_slots = 0;   // slots of the queue that receives this chunk's activations (tokens for the first)
  int gradient_slots = 0;     // of the queue that receives its gradients; 0 for the last virtual stage
  int target_slots = 0;       // of the queue that receives its targets; 0 except for the last virtual stage
  int peak_activations = 0;   // most microbatches between F and the end of B or W
  int peak_pending_weight_grads = 0;  // most microbatches between I and the end of W
};

struct StageNeeds {
  std::vector<ChunkNeeds> chunks;
  // Most microbatches at once over all chunks, in whole-stage units: each chunk counts 1 / chunks.
  double peak_activations = 0;
};

// The plan breaks a rule; what() names the stage and the action, and shows the place on the printed grid.
class InvalidPlan : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Checks that every action is there exactly once, inputs come before use, the collectives of all stages embed in one global
// order, and that nothing deadlocks with exactly the slots returned, for whatever speeds. Returns the needs per stage for the
// given way of choosing: for Order::ready they bound every order that the rule can take.
std::vector<StageNeeds> validate(const Plan& plan, Order order = Order::planned, const SlotLife& life = {});

}  // namespace pipetrain::schedules
