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

// In the backward, for a forward that runs again.
inline KeptMemory backward_memory(const BlockContext& context, WeightGradients& gradients) {
  return {&context.workspace, &gradients.memory(), &gradients.memory()};
}

}  // namespace pipetrain
