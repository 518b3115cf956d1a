// Estimates the times of a model's blocks from the times of the stages that held them.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "model/config/block.hpp"

namespace pipetrain {

// The kinds of blocks: those of BlockKind, and again those for blocks that recompute less than the run's others.
constexpr std::size_t kinds_of_blocks = 2 * block_kinds;
using ByKind = std::array<double, kinds_of_blocks>;
using KindsOfParts = std::vector<std::vector<std::size_t>>;  // [virtual stage][block]

// The times of one kind of action, such as all F. A stage's time is the sum of its blocks' times. The times of the
// kinds are those that reproduce all stages' times with the least error, pulled towards the shares of their FLOPs where
// several solutions do (ridge regression); each stage's blocks are then scaled to its measured sum.
class BlockTimes {
 public:
  // seconds: of each part. shares: the FLOPs of a block of each kind, in any unit.
  BlockTimes(const KindsOfParts& parts, const std::vector<double>& seconds, const ByKind& shares);

  // Returns the seconds that the model's block of this number would take if it were of this kind.
  double of(std::size_t block, std::size_t kind) const {
    return factor_of_block_.empty() ? 0 : factor_of_block_[block] * per_kind_[kind];
  }
  // Returns the mean over all blocks of this kind, given the kinds of all measured parts.
  double mean(const KindsOfParts& parts, std::size_t kind) const;
  // Returns the sum over blocks of these kinds, the first of which has this number.
  double sum(std::size_t first, const std::vector<std::size_t>& blocks) const;

 private:
  void fit(const KindsOfParts& parts, const std::vector<double>& seconds);

  ByKind per_kind_{};
  std::vector<double> factor_of_block_;  // the ratio of a block's time to its kind's; empty: nothing was measured
};

}  // namespace pipetrain
