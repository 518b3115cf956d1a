// The second moments of 1-bit Adam after its warm-up: they keep their pattern, and their size follows the gradients'.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"

namespace pipetrain {

// One tensor's moments, before a step. With `raises`, second moments become at least a hundredth of the tensor's mean. This is
// done when they are frozen: those of weights whose gradients were 0 so far, such as an embedding's rows of tokens that have
// not come yet, would make their first steps too large without end.
//
// Otherwise second moments are multiplied by one factor. AdamW's steps have a nearly constant size, because second moments
// follow the squares of gradients: where these are mostly noise, as in all but the first steps, the quotients of first moments
// and roots of second ones have the root mean square sqrt((1 - beta1) / (1 + beta1)). The factor brings them towards that as
// fast as beta2 lets second moments change.
struct SettleMomentsArgs {
  Tensor first, second;  // [elements] f32; may be empty
  bool raises = false;
  float beta1 = 0, beta2 = 0, eps = 0;  // of AdamW
  std::int64_t frozen_after = 1;        // the steps after which second moments were frozen
};

inline constexpr double least_moment_share = 0.01;

}  // namespace pipetrain
