// What a stage's devices will allocate in a layout that nobody has built: no devices, no data.
#pragma once

#include <memory>
#include <vector>

#include "actors/training/rank_compute.hpp"

namespace pipetrain {

class StageMemory {
 public:
  // Throws Error(input) when tp cannot split the model. Sequence parallel where tp > 1.
  StageMemory(const ModelConfig& config, int tp, MicrobatchShape shape, Recompute recompute = Recompute::none);
  ~StageMemory();

  // Of the first rank of a stage with these chunks, each a run of blocks; the others have the same or a little less.
  MemoryUse estimate(const std::vector<std::vector<Block>>& chunks, int microbatches, const schedules::StageNeeds& needs) const;

  // Of one microbatch of each chunk.
  std::vector<ActivationBytes> activations(const std::vector<std::vector<Block>>& chunks) const;

 private:
  ModelConfig config_;
  MicrobatchShape shape_;
  Recompute recompute_;
  std::shared_ptr<Group> tensor_;
};

}  // namespace pipetrain
