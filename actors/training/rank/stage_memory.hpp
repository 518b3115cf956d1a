// Estimates the memory of a stage's devices in a layout that is not built, without devices and data.
#pragma once

#include <memory>
#include <vector>

#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

class StageMemory {
 public:
  // shape: of the part of each sequence that one rank has. braids: the plan has braids. Sequence parallel where tp > 1. GPUs
  // need scratch memory, and memory for results on their way. Throws Error(input) when tp cannot split the model, or the device
  // cannot compute its heads.
  StageMemory(const ModelConfig& config, MicrobatchShape shape, const JobSettings& settings, bool braids = false);
  ~StageMemory();

  // Estimates the first rank of a stage with these chunks of consecutive blocks; other ranks need the same or a little
  // less, and where replicas divide state, up to two blocks of the norm more or less. actions: of the stage in a step,
  // which determine whether gradients share memory; empty: they do not.
  MemoryUse estimate(const std::vector<std::vector<Block>>& chunks, int microbatches, const schedules::StageNeeds& needs,
                     const std::vector<schedules::Action>& actions = {}) const;

  // Returns the activations of one microbatch of each chunk.
  std::vector<ActivationBytes> activations(const std::vector<std::vector<Block>>& chunks) const;

 private:
  ModelConfig config_;
  MicrobatchShape shape_;
  JobSettings settings_;
  bool braids_;
  std::shared_ptr<Group> tensor_;
};

}  // namespace pipetrain
