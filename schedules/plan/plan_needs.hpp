// The resources that a run must reserve for a plan: the slots of its queues and the microbatches that each stage keeps.
#pragma once

#include <vector>

#include "schedules/plan/action.hpp"

namespace pipetrain::schedules {

// The last action of a microbatch that reads a chunk's received input, which stays in its slot until then. The compute
// decides (forward: it copies the input or needs it no more; input_grad: until B or I; weight_grad: until B or W).
// Targets stay as long as activations.
struct SlotLife {
  ActionKind activation = ActionKind::input_grad;
  ActionKind gradient = ActionKind::weight_grad;  // not forward
};

// True when an input whose last reader is `last_reader` is not read after an action of this kind.
constexpr bool ends_life(ActionKind last_reader, ActionKind kind) {
  if (last_reader == ActionKind::forward) return kind == ActionKind::forward;
  return last_reader == ActionKind::weight_grad ? gives_weight_grad(kind) : gives_input_grad(kind);
}

struct ChunkNeeds {
  int activation_slots = 0;  // of the queue that receives this chunk's activations (tokens for the first virtual stage)
  int gradient_slots = 0;    // of the queue that receives its gradients; 0 for the last virtual stage
  int target_slots = 0;      // of the queue that receives its targets; 0 except for the last virtual stage
  int peak_activations = 0;  // the most microbatches between F and the end of B or W that are on the device
  int peak_pending_weight_grads = 0;  // the most microbatches between I and the end of W
  int peak_offloaded = 0;             // the most microbatches outside of the device, from P until G has had its time
  bool operator==(const ChunkNeeds&) const = default;
};

struct StageNeeds {
  std::vector<ChunkNeeds> chunks;
  // The most microbatches at once over all chunks, in units of a whole stage: each chunk counts 1 / chunks.
  double peak_activations = 0;
  bool operator==(const StageNeeds&) const = default;
};

}  // namespace pipetrain::schedules
