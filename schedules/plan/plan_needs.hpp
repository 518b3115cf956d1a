// What a run must reserve for a plan: the slots of its queues and the microbatches that each stage keeps.
#pragma once

#include <vector>

#include "schedules/plan/action.hpp"

namespace pipetrain::schedules {

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
  int peak_activations = 0;           // most microbatches between F and the end of B or W that are on the device
  int peak_pending_weight_grads = 0;  // most microbatches between I and the end of W
  int peak_offloaded = 0;             // most microbatches outside of the device, from P on until G has had its time
  bool operator==(const ChunkNeeds&) const = default;
};

struct StageNeeds {
  std::vector<ChunkNeeds> chunks;
  // Most microbatches at once over all chunks, in whole-stage units: each chunk counts 1 / chunks.
  double peak_activations = 0;
  bool operator==(const StageNeeds&) const = default;
};

}  // namespace pipetrain::schedules
