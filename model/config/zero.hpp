// Zero names the state that data-parallel replicas divide among themselves instead of each keeping all of it.
// Source: Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", arXiv 1910.02054.
#pragma once

namespace pipetrain {

struct Zero {
  // 0: nothing. 1: the optimizer's states, and master weights that operations do not read. 2: the gradients' sums too. 3: the
  // weights that operations read too, which are gathered ahead of use.
  int stage = 0;
  int prefetch = 1;  // stage 3: blocks that are gathered ahead of the one in use

  bool divides_states() const { return stage >= 1; }
  bool divides_grads() const { return stage >= 2; }
  bool divides_weights() const { return stage >= 3; }
  bool operator==(const Zero&) const = default;
};

inline constexpr int most_zero_stages = 3;

}  // namespace pipetrain
