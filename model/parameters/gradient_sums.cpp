#include "model/parameters/gradient_sums.hpp"

#include <algorithm>

#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

Tensor grad_of(const StoredTensor& tensor, const Tensor& grads) {
  return span(grads, tensor.grad_offset, static_cast<std::size_t>(tensor.shape.elements())).reshaped(tensor.shape);
}

// True for models whose adapters of experts have matrices that all ranks hold.
bool shares_adapters(const ModelConfig& config) {
  const auto blocks = block_counts(config);
  return std::any_of(blocks.begin(), blocks.end(), [&](const BlockCount& counted) {
    const auto tensors = block_tensors(config, counted.block);
    return std::any_of(tensors.begin(), tensors.end(),
                       [](const TensorSpec& tensor) { return tensor.shared && is_of_adapter(tensor.role); });
  });
}

}  // namespace

bool has_partial_gradients(const ModelConfig& config, int tp, bool sequence_parallel) {
  return tp > 1 && (sequence_parallel || config.head_norms || tp > config.kv_heads || shares_adapters(config));
}

void sum_partial_grads(const Tensor& partial, const TensorParallel& tp, Ops& ops) {
  if (tp.size() == 1 || partial.elements() == 0) return;
  tp.group->all_reduce(ops.stream(), partial, Reduction::sum);
}

CopiedPart copied_part(const Parameter& parameter, const Tensor& gradient, const TensorParallel& tp) {
  return {gradient, tp.rank() / parameter.copies, tp.size() / parameter.copies};
}

void sum_copied_grads(const std::vector<CopiedPart>& parts, const TensorParallel& tp, Ops& ops) {
  for (const CopiedPart& part : parts)
    ops.sum_copies({.tp = tp, .values = part.gradient, .slice = part.slice, .slices = part.slices});
}

TensorRole tied_copy_role(const ModelConfig& config) {
  return config.tied_embeddings ? TensorRole::output_weight : TensorRole::next_token_table;
}

TiedGrads tied_grads(const ParameterLayout& layout, const ModelConfig& config, const Tensor& grads) {
  TiedGrads tied;
  if (!config.shares_table()) return tied;
  if (const auto* table = find_tensor(layout, TensorRole::token_table)) tied.embedding = grad_of(*table, grads);
  if (const auto* copy = find_tensor(layout, tied_copy_role(config))) tied.copy = grad_of(*copy, grads);
  return tied;
}

void sum_tied_grads(const TiedGrads& tied, Ops& ops) {
  if (tied.has_embedding() && tied.has_copy()) ops.add(tied.embedding, tied.copy);
}

}  // namespace pipetrain
