#include "actors/training/rank/stage_memory.hpp"

#include "actors/training/rank/rank_memory.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "model/config/attention_limits.hpp"

namespace pipetrain {

StageMemory::StageMemory(const ModelConfig& config, MicrobatchShape shape, const JobSettings& settings, bool braids)
    : config_(config), shape_(shape), settings_(settings), braids_(braids) {
  // These throw for a model that cannot be split or computed in this way.
  layout_parameters(config, {blocks_of(config)}, 0, settings.layout.tp);
  check_attention(config, settings.devices.kind, settings.numerics.precision.compute);
  if (settings.layout.tp > 1) tensor_ = std::move(make_inprocess_groups(settings.layout.tp).front());
}

StageMemory::~StageMemory() = default;

MemoryUse StageMemory::estimate(const std::vector<std::vector<Block>>& chunks, int microbatches,
                                const schedules::StageNeeds& needs, const std::vector<schedules::Action>& actions) const {
  RankSetup setup;
  static_cast<JobSettings&>(setup) = settings_;
  setup.groups.tensor = tensor_;
  setup.config = config_;
  setup.chunks = chunks;
  setup.shape = shape_;
  setup.context = {0, settings_.layout.cp};
  setup.microbatches = microbatches;
  setup.needs = needs;
  setup.actions = actions;
  const MeshShape shape = settings_.mesh_shape();
  setup.replicas = weight_copies(shape);
  setup.experts = {0, shape.ep};
  setup.expert_replicas = expert_copies(shape);
  setup.braids = braids_;
  if (settings_.devices.kind != DeviceKind::cuda) return estimate_memory(setup);
  std::size_t blocks = 0;
  for (const auto& chunk : chunks) blocks += chunk.size();
  if (blocks < blocks_of(config_).size()) setup.links[0] = LinkKind::peer_copy;  // to any other stage
  MemoryUse use = estimate_memory(setup);
  use.workspace += gpu_scratch_estimate(setup);
  return use;
}

std::vector<ActivationBytes> StageMemory::activations(const std::vector<std::vector<Block>>& chunks) const {
  const auto ops = make_measuring_ops();
  const TensorParallel tp{tensor_.get(), tensor_ != nullptr};
  const StageModelSpec spec{.config = config_,
                            .chunks = chunks,
                            .shape = shape_,
                            .numerics = settings_.numerics,
                            .context = {{0, settings_.layout.cp}},
                            .experts = {{0, settings_.layout.ep}}};
  const auto model = make_stage_model(spec, tp, *ops);
  std::vector<ActivationBytes> bytes;
  for (int chunk = 0; chunk < static_cast<int>(chunks.size()); ++chunk) bytes.push_back(model->activation_bytes(chunk));
  return bytes;
}

}  // namespace pipetrain
