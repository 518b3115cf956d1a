#include "actors/training/rank/rank_expert_biases.hpp"

#include <cstring>

#include "core/error.hpp"
#include "model/config/routed_layers.hpp"

namespace pipetrain {
namespace {

// Returns the number of a routed layer among those of the model.
std::int64_t number_of_routed(const ModelConfig& config, std::int64_t layer) {
  std::int64_t number = 0;
  for (std::int64_t earlier = 0; earlier < layer; ++earlier) number += config.experts.routes(earlier);
  return number;
}

}  // namespace

RankExpertBiases::RankExpertBiases(const RankSetup& setup, Stream& stream)
    : stream_(stream), experts_(setup.config.experts.count), model_layers_(setup.config.routed_layers()) {
  chunks_.resize(setup.chunks.size());
  if (!setup.expert_biases || routed_blocks(setup.chunks) == 0) return;
  const Tensor all{nullptr, {routed_blocks(setup.chunks), experts_}, DType::f32};
  memory_ = setup.device->allocate(all.bytes(), to_string(setup.id) + ": biases of experts");
  host_memory_ = setup.device->allocate_host(all.bytes(), to_string(setup.id) + ": biases of experts");
  const Tensor here{memory_.data(), all.shape, all.dtype};
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const std::int64_t begin = std::ssize(layers_);
    for (const Block& block : setup.chunks[chunk])
      if (block.kind == BlockKind::experts) layers_.push_back(number_of_routed(setup.config, block.layer));
    if (std::ssize(layers_) > begin) chunks_[chunk] = here.row_range(begin, std::ssize(layers_));
  }
  stream_.zero(here);
}

// The host's memory is free: its last copy belongs to the previous step, which has ended.
void RankExpertBiases::begin_step(const StepInfo& step) {
  if (layers_.empty()) return;
  const auto bytes = static_cast<std::size_t>(experts_) * sizeof(float);
  if (!step.content || step.content->size() != static_cast<std::size_t>(model_layers_) * bytes)
    throw Error(ErrorKind::internal, "step " + std::to_string(step.step) + " has no biases of experts");
  auto* host = static_cast<std::byte*>(host_memory_.data());
  for (const std::int64_t layer : layers_) {
    std::memcpy(host, step.content->data() + static_cast<std::size_t>(layer) * bytes, bytes);
    host += bytes;
  }
  stream_.copy(memory_.data(), host_memory_.data(), layers_.size() * bytes);
}

}  // namespace pipetrain
