// KeptMemory says into which arena a block puts each value that its backward reads: see recompute.hpp.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

struct KeptMemory {
  Arena* results;  // outputs of matrices and attention that only the input gradient reads
  Arena* inputs;   // inputs of matrices, which their weight gradients read too
  Arena* remade;   // those of them that an elementwise pass can compute again; null: they are not kept
};

// Returns the memory of a forward; `saved` lasts until B or W. Values in the workspace are lost when the block's scope ends.
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

// Returns the memory of the head's forward; its logits are kept in every mode.
inline KeptMemory head_memory(const BlockContext& context, Arena& saved) {
  return {&saved, &saved, context.recompute == Recompute::none ? &saved : nullptr};
}

// Returns true if only the block's input was kept, so that the backward begins by running the forward again.
inline bool runs_forward_again(const BlockContext& context) { return context.recompute == Recompute::full; }

// Returns the memory of a forward that the backward runs again.
inline KeptMemory backward_memory(const BlockContext& context, WeightGradients& gradients) {
  return {&context.workspace, &gradients.memory(), &gradients.memory()};
}

}  // namespace pipetrain
