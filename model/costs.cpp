#include "model/costs.hpp"

namespace pipetrain {
namespace {

std::int64_t block_matmul_parameters(const ModelConfig& config, const Block& block) {
  switch (block.kind) {
    case BlockKind::embedding:
      return 0;
    case BlockKind::attention:
      return 2 * config.hidden * (config.heads + config.kv_heads) * config.head_dim;
    case BlockKind::mlp:
      return config.hidden * (config.mlp_columns() + config.intermediate);
    case BlockKind::head:
      return config.hidden * config.vocabulary;
  }
  return 0;
}

}  // namespace

std::int64_t block_parameter_count(const ModelConfig& config, const Block& block) {
  const std::int64_t norm = config.norm == NormKind::layer ? 2 * config.hidden : config.hidden;
  const auto biases = [&](std::int64_t outputs) { return config.biases ? outputs + config.hidden : 0; };
  switch (block.kind) {
    case BlockKind::embedding:
      return config.hidden * (config.vocabulary + (config.positions == PositionKind::learned ? config.max_positions : 0));
    case BlockKind::attention:
      return norm + block_matmul_parameters(config, block) + biases((config.heads + 2 * config.kv_heads) * config.head_dim);
    case BlockKind::mlp:
      return norm + block_matmul_parameters(config, block) + biases(config.mlp_columns());
    case BlockKind::head:
      return norm + (config.tied_embeddings ? 0 : block_matmul_parameters(config, block));
  }
  return 0;
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const Block& block : blocks_of(config)) count += block_parameter_count(config, block);
  return count;
}

std::int64_t matmul_parameter_count(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const Block& block : blocks_of(config)) count += block_matmul_parameters(config, block);
  return count;
}

double model_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  const double attention = static_cast<double>(config.layers) * static_cast<double>(config.hidden * sequence);
  return 6.0 * static_cast<double>(matmul_parameter_count(config)) + 6.0 * attention;
}

double block_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence) {
  const double matmul = 6.0 * static_cast<double>(block_matmul_parameters(config, block));
  switch (block.kind) {
    case BlockKind::embedding:
      return 6.0 * static_cast<double>(config.hidden);
    case BlockKind::attention:
      return matmul + 6.0 * static_cast<double>(config.heads * config.head_dim * sequence);
    default:
      return matmul;
  }
}

// All of the forward but the block's last matrix.
double block_recompute_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence,
                                       Recompute recompute) {
  if (recompute != Recompute::full) return 0;
  switch (block.kind) {
    case BlockKind::attention: {
      const auto scores = static_cast<double>(config.heads * config.head_dim * sequence);
      return 2.0 * static_cast<double>(config.hidden * (config.heads + 2 * config.kv_heads) * config.head_dim) + 2.0 * scores;
    }
    case BlockKind::mlp:
      return 2.0 * static_cast<double>(config.hidden * config.mlp_columns());
    default:
      return 0;
  }
}

}  // namespace pipetrain
