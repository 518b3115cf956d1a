// Estimates the memory of a stage's devices in a layout that is not built, without devices and data.
#pragma once

#include <memory>
#include <vector>

#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

class StageMemory {
 public:
  struct Mode {
    Numerics numerics = {};
    DeviceKind device = DeviceKind::cpu;  // GPUs need scratch memory, and memory for results on their way
    Zero zero = {};
    int replicas = 1;
    Offload offload = {};
    bool braids = false;    // its plan has braids
    bool previews = false;  // steps begin before the verdict on the previous one
    OptimizerSettings optimizer = {};
    int cp = 1;  // ranks that share sequences; the shape is that of one part
  };
  // Throws Error(input) when tp cannot split the model, or the device cannot compute its heads. Sequence parallel where tp > 1.
  StageMemory(const ModelConfig& config, int tp, MicrobatchShape shape, const Mode& mode);
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
  Mode mode_;
  std::shared_ptr<Group> tensor_;
};

}  // namespace pipetrain
