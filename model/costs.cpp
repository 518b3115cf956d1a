#include "model/costs.hpp"

#include <algorithm>

#include "model/config/adapter_roles.hpp"
#include "model/config/tensor_spec.hpp"

namespace pipetrain {
namespace {

// Counts the elements of the block's tensors for which wanted() returns true.
template <class Wanted>
std::int64_t elements_of(const ModelConfig& config, const Block& block, Wanted wanted) {
  std::int64_t elements = 0;
  for (const TensorSpec& tensor : block_tensors(config, block)) {
    if (wanted(tensor)) elements += tensor.elements();
  }
  return elements;
}

template <class Wanted>
std::int64_t elements_of(const ModelConfig& config, Wanted wanted) {
  std::int64_t elements = 0;
  for (const BlockCount& counted : block_counts(config))
    elements += counted.blocks * elements_of(config, counted.block, wanted);
  return elements;
}

bool is_counted(const TensorSpec& tensor) { return !tensor.tied_copy; }
bool is_counted_and_trained(const TensorSpec& tensor) { return is_counted(tensor) && is_trained(tensor.group); }
bool is_multiplied(const TensorSpec& tensor) { return is_matrix(tensor.role); }
bool is_of_experts(const TensorSpec& tensor) { return tensor.expert >= 0; }
bool is_multiplied_and_trained(const TensorSpec& tensor) { return is_multiplied(tensor) && is_trained(tensor.group); }
bool is_of_trained_experts(const TensorSpec& tensor) { return is_of_experts(tensor) && is_trained(tensor.group); }

// Returns the elements, of `all` in a block, that each token is multiplied with: of its experts' only those that it chooses.
std::int64_t active_share(const ModelConfig& config, const Block& block, std::int64_t all, std::int64_t experts) {
  if (block.kind == BlockKind::head && config.mtp.is_trained()) return 2 * all;  // each of the two predictions has logits
  if (block.kind != BlockKind::experts) return all;
  return all - experts + experts / config.experts.count * config.experts.chosen;
}
std::int64_t active_elements(const ModelConfig& config, const Block& block) {
  return active_share(config, block, elements_of(config, block, is_multiplied), elements_of(config, block, is_of_experts));
}
std::int64_t active_trained_elements(const ModelConfig& config, const Block& block) {
  return active_share(config, block, elements_of(config, block, is_multiplied_and_trained),
                      elements_of(config, block, is_of_trained_experts));
}

// Twice the positions that a query of the layer sees, on the average over the sequence: all of them without a window, as a
// causal product counts half.
double seen_positions(const ModelConfig& config, std::int64_t layer, std::int64_t sequence) {
  const AttentionSight sight = config.sight_of(layer);
  const auto all = static_cast<double>(sequence);
  // Queries see on average half a block less than a window that ends with their block.
  const double window = static_cast<double>(sight.window) - static_cast<double>(sight.block) / 2;
  if (sight.window == 0 || window >= all) return all;
  // Before the window, queries see the sinks and the stripes.
  const double before = all - window, sinks = std::min(static_cast<double>(sight.sinks), before);
  const double striped =
      sight.period > 0 ? before * before / 2 * static_cast<double>(sight.stripe) / static_cast<double>(sight.period) : 0;
  return window * (2 - window / all) + 2 * (sinks * (before - sinks / 2) + striped) / all;
}

// FLOPs per token of one product of causal attention, scores with queries, keys or values: the mean of these, where values have
// another number of columns.
double score_products(const ModelConfig& config, std::int64_t layer, std::int64_t sequence) {
  const double columns = static_cast<double>(config.heads * (config.head_dim + config.value_dim())) / 2;
  return columns * seen_positions(config, layer, sequence);
}

}  // namespace

std::int64_t block_parameter_count(const ModelConfig& config, const Block& block) {
  return elements_of(config, block, is_counted);
}

std::int64_t trained_parameter_count(const ModelConfig& config, const Block& block) {
  return elements_of(config, block, is_counted_and_trained);
}

std::int64_t expert_parameter_count(const ModelConfig& config, const Block& block) {
  return elements_of(config, block, is_of_trained_experts);
}

std::int64_t trained_parameter_count(const ModelConfig& config) { return elements_of(config, is_counted_and_trained); }

std::int64_t parameter_count(const ModelConfig& config) { return elements_of(config, is_counted); }

std::int64_t matmul_parameter_count(const ModelConfig& config) {
  std::int64_t elements = 0;
  for (const BlockCount& counted : block_counts(config)) elements += counted.blocks * active_elements(config, counted.block);
  return elements;
}

double model_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  double attention = 0;
  for (std::int64_t layer = 0; layer < config.computed_layers(); ++layer)
    attention += config.latent ? score_products(config, layer, sequence)
                               : static_cast<double>(config.hidden) * seen_positions(config, layer, sequence);
  std::int64_t trained = 0;
  for (const BlockCount& counted : block_counts(config))
    trained += counted.blocks * active_trained_elements(config, counted.block);
  return 4.0 * static_cast<double>(matmul_parameter_count(config)) + 2.0 * static_cast<double>(trained) + 6.0 * attention;
}

double attention_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence) {
  return 6.0 * score_products(config, block.layer, sequence);
}

double block_weight_grad_flops_per_token(const ModelConfig& config, const Block& block) {
  if (block.kind == BlockKind::embedding) return config.trained.embeddings ? 2.0 * static_cast<double>(config.hidden) : 0;
  return 2.0 * static_cast<double>(active_trained_elements(config, block));
}

double block_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence) {
  const double weight_grad = block_weight_grad_flops_per_token(config, block);
  if (block.kind == BlockKind::embedding) return 4.0 * static_cast<double>(config.hidden) + weight_grad;
  const double matmul = 4.0 * static_cast<double>(active_elements(config, block)) + weight_grad;
  return block.kind == BlockKind::attention ? matmul + attention_flops_per_token(config, block, sequence) : matmul;
}

// Counts the forward without the block's last matrix; for a head in pieces, the whole forward.
double block_recompute_flops_per_token(const ModelConfig& config, const Block& block, std::int64_t sequence,
                                       Recompute recompute, int head_pieces) {
  const auto matmul = [&](TensorRole role) {
    const auto has_role = [&](const TensorSpec& tensor) { return tensor.role == role; };
    return 2.0 * static_cast<double>(elements_of(config, block, has_role));
  };
  // Adapters of the matrix are multiplied again with it.
  const auto adapted = [&](TensorRole role) {
    const auto roles = adapter_roles(role);
    const auto is_it = [&](const TensorSpec& tensor) {
      return tensor.role == role ||
             (is_of_adapter(tensor.role) &&
              (tensor.role == roles->in || std::count(roles->out.begin(), roles->out.end(), tensor.role) > 0));
    };
    return 2.0 * static_cast<double>(elements_of(config, block, is_it));
  };
  if (block.kind == BlockKind::head)
    return head_pieces > 1 ? (config.mtp.is_trained() ? 2 : 1) * matmul(TensorRole::output_weight) : 0;
  if (recompute != Recompute::full) return 0;
  switch (block.kind) {
    case BlockKind::attention:
      return adapted(TensorRole::qkv_weight) + adapted(TensorRole::compress_weight) + adapted(TensorRole::query_expand_weight) +
             adapted(TensorRole::key_value_expand_weight) + 2.0 * score_products(config, block.layer, sequence);
    case BlockKind::mlp:
      return adapted(TensorRole::mlp_in_weight);
    case BlockKind::experts: {
      const double chosen = static_cast<double>(config.experts.chosen) / static_cast<double>(config.experts.count);
      return matmul(TensorRole::router_weight) + chosen * adapted(TensorRole::expert_in_weight) +
             adapted(TensorRole::shared_in_weight) + matmul(TensorRole::shared_gate_weight);
    }
    default:
      return 0;
  }
}

}  // namespace pipetrain
