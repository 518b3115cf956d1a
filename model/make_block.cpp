#include "model/make_block.hpp"

#include <cassert>

#include "model/attention/attention_block.hpp"
#include "model/attention/latent_attention_block.hpp"
#include "model/blocks/chunked_head_block.hpp"
#include "model/blocks/embedding_block.hpp"
#include "model/blocks/head_block.hpp"
#include "model/blocks/mlp_block.hpp"
#include "model/experts/routed_block.hpp"
#include "model/further/mtp_block.hpp"
#include "model/further/mtp_head_block.hpp"

namespace pipetrain {
namespace {

std::unique_ptr<BlockCompute> make_head(const ModelConfig& config, const TensorParallel& tp, std::optional<int> loss_chunks,
                                        bool has_norm) {
  if (loss_chunks) return std::make_unique<ChunkedHeadBlock>(config, tp, *loss_chunks, has_norm);
  return std::make_unique<HeadBlock>(config, tp, has_norm);
}

}  // namespace

std::unique_ptr<BlockCompute> make_block(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp,
                                         std::optional<int> loss_chunks) {
  switch (parameters.block.kind) {
    case BlockKind::embedding:
      return std::make_unique<EmbeddingBlock>(config, tp);
    case BlockKind::attention:
      if (config.latent) return std::make_unique<LatentAttentionBlock>(config, parameters, tp);
      return std::make_unique<AttentionBlock>(config, parameters, tp);
    case BlockKind::mlp:
      return std::make_unique<MlpBlock>(config, parameters, tp);
    case BlockKind::experts:
      return std::make_unique<RoutedBlock>(config, parameters.block, tp);
    case BlockKind::mtp:
      return std::make_unique<MtpBlock>(config, tp);
    case BlockKind::head:
      if (!config.mtp.is_trained()) return make_head(config, tp, loss_chunks, true);
      return std::make_unique<MtpHeadBlock>(make_head(config, tp, loss_chunks, false), make_head(config, tp, loss_chunks, true),
                                            config.mtp.loss);
  }
  assert(false);
  return nullptr;
}

}  // namespace pipetrain
