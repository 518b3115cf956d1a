#include "model/parameters/gradient_sums.hpp"

#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

Tensor grad_of(const StoredTensor& tensor, const Tensor& grads) {
  return span(grads, tensor.grad_offset, static_cast<std::size_t>(tensor.shape.elements())).reshaped(tensor.shape);
}

}  // namespace

void sum_replicated_grads(const Tensor& replicated, const TensorParallel& tp, Ops& ops) {
  if (!tp.sequence_parallel || tp.size() == 1 || replicated.elements() == 0) return;
  tp.group->all_reduce(ops.stream(), replicated, Reduction::sum);
}

TiedGrads tied_grads(const ParameterLayout& layout, const ModelConfig& config, const Tensor& grads) {
  TiedGrads tied;
  if (!config.tied_embeddings) return tied;
  if (const auto* table = find_tensor(layout, TensorRole::token_table)) tied.embedding = grad_of(*table, grads);
  if (const auto* output = find_tensor(layout, TensorRole::output_weight)) tied.head = grad_of(*output, grads);
  return tied;
}

void sum_tied_grads(const TiedGrads& tied, Ops& ops) {
  if (tied.has_embedding() && tied.has_head()) ops.add(tied.embedding, tied.head);
}

}  // namespace pipetrain
