#include "actors/training/stage_memory.hpp"

#include "comm/inprocess_group.hpp"

namespace pipetrain {

StageMemory::StageMemory(const ModelConfig& config, int tp, MicrobatchShape shape, Recompute recompute)
    : config_(config), shape_(shape), recompute_(recompute) {
  layout_parameters(config, {blocks_of(config)}, 0, tp);  // throws for a tp that cannot split the model
  if (tp > 1) tensor_ = std::move(make_inprocess_groups(tp).front());
}

StageMemory::~StageMemory() = default;

MemoryUse StageMemory::estimate(const std::vector<std::vector<Block>>& chunks, int microbatches,
                                const schedules::StageNeeds& needs) const {
  RankSetup setup;
  setup.groups.tensor = tensor_;
  setup.config = config_;
  setup.chunks = chunks;
  setup.shape = shape_;
  setup.recompute = recompute_;
  setup.microbatches = microbatches;
  setup.needs = needs;
  return estimate_memory(setup);
}

std::vector<ActivationBytes> StageMemory::activations(const std::vector<std::vector<Block>>& chunks) const {
  const auto ops = make_measuring_ops();
  const auto model =
      make_stage_model(config_, chunks, shape_, {tensor_.get(), tensor_ != nullptr}, *ops, DType::f32, recompute_);
  std::vector<ActivationBytes> bytes;
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk) bytes.push_back(model->activation_bytes(chunk));
  return bytes;
}

}  // namespace pipetrain
