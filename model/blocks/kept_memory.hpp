// Where a block puts what its backward reads: see recompute.hpp.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

struct KeptMemory {
  Arena* results;  // of matrices and attention, which only the input gradient reads
  Arena* inputs;   // of matrices, which their weight gradients read too
  Arena* remade;   // of these, what an elementwise pass makes again; null: it is not kept
};

// In the forward; `saved` lasts until B or W. What goes to the workspace is lost with the block's scope.
inline KeptMemory forward_memory(const BlockContext& context, Arena& saved) {
  switch (context.recompute) {
    case Recompute::none:
      return {&saved, &saved, &saved};
    case Recompute::selective:
      return {&saved, &saved, nullptr};
    case Recompute::full:
      break;
  }
  return {&context.workspace, &context.workspace, nullptr};
}

// The same of the head, whose logits are kept in every mode.
inline KeptMemory head_memory(const BlockContext& context, Arena& saved) {
  return {&saved, &saved, context.recompute == Recompute::none ? &saved : nullptr};
}

// Whether the backward begins with the forward of what it needs; its inputs are all that was kept.
inline bool runs_forward_again(const BlockContext& context) { return context.recompute == Recompute::full; }

// In the backward, for a forward that runs again.
inline KeptMemory backward_memory(const BlockContext& context, WeightGradients& gradients) {
  return {&context.workspace, &gradients.memory(), &gradients.memory()};
}

}  // namespace pipetrain
