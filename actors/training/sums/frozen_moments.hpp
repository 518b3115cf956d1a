// The second moments of 1-bit Adam after its warm-up: they keep their pattern, and their size follows the gradients'.
#pragma once

#include <cstddef>

#include "core/cpu_stream.hpp"

namespace pipetrain {

// The factors of AdamW, and the steps after which second moments were frozen.
struct FrozenAdam {
  float beta1 = 0, beta2 = 0, eps = 0;
  std::int64_t frozen_after = 1;
};

// One tensor's moments [elements].
struct TensorMoments {
  const float* first = nullptr;
  float* second = nullptr;
  std::size_t elements = 0;
};

// Raises second moments to a hundredth of the tensor's mean, when they are frozen: those of weights whose gradients were 0 so
// far, such as an embedding's rows of tokens that have not come yet, would make their first steps too large without end. Both
// functions enqueue; they have the same bits on every call and number of threads.
void raise_least(CpuStream& stream, const TensorMoments& moments);

// Multiplies the tensor's second moments by one factor, before a step. AdamW's steps have a nearly constant size, because
// second moments follow the squares of gradients: where these are mostly noise, as in all but the first steps, the quotients of
// first moments and roots of second ones have the root mean square sqrt((1 - beta1) / (1 + beta1)). The factor brings them
// towards that as fast as beta2 lets second moments change.
void follow_gradients(CpuStream& stream, const TensorMoments& moments, const FrozenAdam& adam);

}  // namespace pipetrain
