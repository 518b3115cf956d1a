#include "model/costs.hpp"

#include "model/config/tensor_spec.hpp"

namespace pipetrain {
namespace {

// Counts the elements of the block's tensors for which wanted() returns true. All layers have equal tensors.
template <class Wanted>
std::int64_t elements_of(const ModelConfig& config, BlockKind kind, Wanted wanted) {
  std::int64_t elements = 0;
  for (const TensorSpec& tensor : block_tensors(config, {kind, 0})) {
    if (wanted(tensor)) elements += tensor.elements();
  }
  return elements;
}

template <class Wanted>
std::int64_t elements_of(const ModelConfig& config, Wanted wanted) {
  const auto of = [&](BlockKind kind) { return elements_of(config, kind, wanted); };
  return of(BlockKind::embedding) + config.layers * (of(BlockKind::attention) + of(BlockKind::mlp)) + of(BlockKind::head);
}

bool is_counted(const TensorSpec& tensor) { return !tensor.tied_copy; }
bool is_counted_and_trained(const TensorSpec& tensor) { return is_counted(tensor) && is_trained(tensor.group); }
bool is_multiplied(const TensorSpec& tensor) { return is_matrix(tensor.role); }
bool is_multiplied_and_trained(const TensorSpec& tensor) { return is_multiplied(tensor) && is_trained(tensor.group); }

// Twice the positions that a query of the layer sees, on the average over the sequence: all of them without a window, as a
// causal product counts half.
double seen_positions(const ModelConfig& config, std::int64_t layer, std::int64_t sequence) {
  const auto all = static_cast<double>(sequence), window = static_cast<double>(config.window_of(layer));
  return window == 0 || window >= all ? all : window * (2 - window / all);
}

// FLOPs per token of one product of causal attention: scores with queries, keys or values.
double score_products(const ModelConfig& config, std::int64_t layer, std::int64_t sequence) {
  return static_cast<double>(config.heads * config.head_dim) * seen_positions(config, layer, sequence);
}

}  // namespace

std::int64_t block_parameter_count(const ModelConfig& config, const Block& block) {
  return elements_of(config, block.kind, is_counted);
}

std::int64_t trained_parameter_count(const ModelConfig& config, const Block& block) {
  return elements_of(config, block.kind, is_counted_and_trained);
}

std::int64_t trained_parameter_count(const ModelConfig& config) { return elements_of(config, is_counted_and_trained); }

std::int64_t parameter_count(const ModelConfig& config) { return elements_of(config, is_counted); }

std::int64_t matmul_parameter_count(const ModelConfig& config) { return elements_of(config, is_multiplied); }

double model_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  double attention = 0;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    attention += static_cast<double>(config.hidden) * seen_positions(config, layer, sequence);
  const std::int64_t trained = elements_of(config, is_multiplied_and_trained);
  return 4.0 * static_cast<double>(matmul_parameter_count(config)) + 2.0 * static_cast<double>(trained) + 6.0 * attention;
}

double attention_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence) {
  return 6.0 * score_products(config, block.layer, sequence);
}

double block_weight_grad_flops_per_token(const ModelConfig& config, const Block& block) {
  if (block.kind == BlockKind::embedding) return config.trained.embeddings ? 2.0 * static_cast<double>(config.hidden) : 0;
  return 2.0 * static_cast<double>(elements_of(config, block.kind, is_multiplied_and_trained));
}

double block_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence) {
  const double weight_grad = block_weight_grad_flops_per_token(config, block);
  if (block.kind == BlockKind::embedding) return 4.0 * static_cast<double>(config.hidden) + weight_grad;
  const double matmul = 4.0 * static_cast<double>(elements_of(config, block.kind, is_multiplied)) + weight_grad;
  return block.kind == BlockKind::attention ? matmul + attention_flops_per_token(config, block, sequence) : matmul;
}

// Counts the forward without the block's last matrix; for a head in pieces, the whole forward.
double block_recompute_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence,
                                       Recompute recompute, int head_pieces) {
  const auto matmul = [&](TensorRole role) {
    const auto has_role = [&](const TensorSpec& tensor) { return tensor.role == role; };
    return 2.0 * static_cast<double>(elements_of(config, block.kind, has_role));
  };
  if (block.kind == BlockKind::head) return head_pieces > 1 ? matmul(TensorRole::output_weight) : 0;
  if (recompute != Recompute::full) return 0;
  switch (block.kind) {
    case BlockKind::attention:
      return matmul(TensorRole::qkv_weight) + 2.0 * score_products(config, block.layer, sequence);
    case BlockKind::mlp:
      return matmul(TensorRole::mlp_in_weight);
    default:
      return 0;
  }
}

}  // namespace pipetrain
