// The times of a model's blocks, from the times of the stages that held them.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace pipetrain {

// Blocks by what they compute: the four of BlockKind, and again those that recompute less than the run's others.
constexpr std::size_t block_kinds = 4, kinds_of_blocks = 2 * block_kinds;
using ByKind = std::array<double, kinds_of_blocks>;
using KindsOfParts = std::vector<std::vector<std::size_t>>;  // [virtual stage], one a block

// The times of one kind of work, such as all F. A stage's time is the sum of its blocks'. The times of the kinds of blocks are
// those that give all stages their times with the least error, drawn to the shares of their FLOPs where several do (ridge
// regression); each stage's blocks are then scaled to its measured sum.
class BlockTimes {
 public:
  // seconds: of each part. shares: what a block of each kind takes by its FLOPs, in any unit.
  BlockTimes(const KindsOfParts& parts, const std::vector<double>& seconds, const ByKind& shares);

  // The seconds that the block of this number in the model would take if it were of this kind.
  double of(std::size_t block, std::size_t kind) const {
    return factor_of_block_.empty() ? 0 : factor_of_block_[block] * per_kind_[kind];
  }
  // The mean of all blocks of this kind, given the kinds of all measured parts.
  double mean(const KindsOfParts& parts, std::size_t kind) const;
  // The sum over blocks of these kinds, the first of which has this number.
  double sum(std::size_t first, const std::vector<std::size_t>& blocks) const;

 private:
  void fit(const KindsOfParts& parts, const std::vector<double>& seconds);

  ByKind per_kind_{};
  std::vector<double> factor_of_block_;  // the ratio of a block's time to its kind's; empty: nothing was measured
};

}  // namespace pipetrain
