// The scores by which a token chooses its experts, and the groups of experts that it chooses from. One warp a token. Only for
// .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ops/arguments/experts.hpp"

namespace pipetrain::cuda {
namespace {

constexpr int most_groups = 32;  // a lane for each

struct RouterView {
  const float* logits;
  const float *bias, *correction;  // [E], or null
  ScoreRule rule;
  int tokens, experts, chosen;
  // The blocks of 32 tokens are counted within each range of so many tokens: all of them, or a sequence that has a capacity.
  int range;
  bool normalised;
  float *probabilities, *log_sum_exp, *weights;
  int *of_token, *places, *row_tokens, *offsets;
  unsigned* words;  // [blocks, E]
};

// Two numbers, the larger one first.
struct Pair {
  float best, second;

  __device__ void add(Pair other) {
    second = fmaxf(fminf(best, other.best), fmaxf(second, other.second));
    best = fmaxf(best, other.best);
  }
};

// The scores by which a token chooses: its logits, which have the order of its scores, or its scores and the biases of both
// kinds.
struct Scores {
  const float *logits, *probabilities, *bias, *correction;
  bool are_logits;

  __device__ Scores(const RouterView& view, int token)
      : logits(view.logits + static_cast<std::int64_t>(token) * view.experts),
        probabilities(view.probabilities + static_cast<std::int64_t>(token) * view.experts),
        bias(view.bias),
        correction(view.correction),
        are_logits(view.bias == nullptr && view.correction == nullptr && view.rule.groups == 1) {}

  // Numbers that are none count as the smallest.
  __device__ float of(int e) const {
    if (are_logits) return ordered(logits[e]);
    float score = probabilities[e];
    if (correction != nullptr) score += correction[e];
    if (bias != nullptr) score += bias[e];
    return ordered(score);
  }
  static __device__ float ordered(float score) { return score > -INFINITY ? score : -INFINITY; }
};

// Returns for each lane the score of the group of that number. All lanes call it.
__device__ float group_score(const RouterView& view, const Scores& scores, int lane) {
  const int groups = static_cast<int>(view.rule.groups), size = view.experts / groups;
  float own = -INFINITY;
  for (int group = 0; group < groups; ++group) {
    Pair found{-INFINITY, -INFINITY};
    for (int i = lane; i < size; i += 32) found.add({scores.of(group * size + i), -INFINITY});
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
      found.add({__shfl_xor_sync(~0U, found.best, step), __shfl_xor_sync(~0U, found.second, step)});
    if (lane == group) own = view.rule.pairs && size > 1 ? found.best + found.second : found.best;
  }
  return own;
}

// Returns the groups from which a token chooses, as bits. Of equal scores the lowest group is chosen.
__device__ unsigned choose_groups(const RouterView& view, const Scores& scores, int lane) {
  if (view.rule.groups == 1) return 1;
  __syncwarp();  // other lanes have written probabilities
  const float own = group_score(view, scores, lane);
  unsigned chosen = 0;
  for (int choice = 0; choice < view.rule.chosen_groups; ++choice) {
    float best = own;
    int group = lane < view.rule.groups && (chosen >> lane & 1U) == 0 ? lane : 32;
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(~0U, best, step);
      const int at = __shfl_xor_sync(~0U, group, step);
      if (at < 32 && (group == 32 || other > best || (other == best && at < group))) best = other, group = at;
    }
    chosen |= 1U << group;
  }
  return chosen;
}

}  // namespace
}  // namespace pipetrain::cuda
