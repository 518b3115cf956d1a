// What a stage's devices will allocate in a layout that nobody has built: no devices, no data.
#pragma once

#include <memory>
#include <vector>

#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

class StageMemory {
 public:
  // shape: of the part of sequences that one of the ranks that share them has. braids: in the plan. Sequence parallel where tp
  // > 1. On GPUs stages take scratch of their own, and room for results on their way. Throws Error(input) when tp cannot split
  // the model, or the device not compute its heads.
  StageMemory(const ModelConfig& config, MicrobatchShape shape, const JobSettings& settings, bool braids = false);
  ~StageMemory();

  // Of the first rank of a stage with these chunks, each a run of blocks; the others have the same or a little less, and where
  // replicas divide state, up to two blocks of the norm more or less. actions:
  // of the stage in a step, from which it follows whether gradients share memory; none: as if they did not.
  MemoryUse estimate(const std::vector<std::vector<Block>>& chunks, int microbatches, const schedules::StageNeeds& needs,
                     const std::vector<schedules::Action>& actions = {}) const;

  // Of one microbatch of each chunk.
  std::vector<ActivationBytes> activations(const std::vector<std::vector<Block>>& chunks) const;

 private:
  ModelConfig config_;
  MicrobatchShape shape_;
  JobSettings settings_;
  bool braids_;
  std::shared_ptr<Group> tensor_;
};

}  // namespace pipetrain
