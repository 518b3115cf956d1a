#include "model/blocks/block_compute.hpp"

#include <cassert>

#include "model/context/ring_exchange.hpp"

namespace pipetrain {

SequencePart BlockContext::part() const { return {cp.part, slice == nullptr ? 0 : slice->first}; }

BlockContext BlockContext::alone() const {
  BlockContext own = *this;
  own.tp = {};
  return own;
}

void BlockContext::sum_over_parts(const Tensor& counts) const {
  if (cp.part.is_whole()) return;
  const ArenaScope scope(workspace);
  const Tensor passed = workspace.allocate(counts.shape, counts.dtype),
               received = workspace.allocate(counts.shape, counts.dtype);
  if (cp.ring != nullptr) cp.ring->sum(ops, counts, passed, received);  // null while memory is measured
}

void BlockContext::sum_losses_over_parts(const Tensor& losses) const {
  if (cp.ring != nullptr) cp.ring->all_reduce(ops.stream(), losses);
}

BoundTensor BoundTensors::at(TensorRole role) const {
  const StoredTensor* tensor = parameters_.find(role);
  assert(tensor != nullptr);
  const auto index = static_cast<std::size_t>(tensor - parameters_.tensors.data());
  return {weights_.at(index), grads_.at(index), fp8_.empty() ? Fp8Matrix{} : fp8_.at(index)};
}

Tensor sums_of(const BlockContext& context, const BoundTensor& vector) {
  return vector.is_trained() ? vector.grad : context.workspace.allocate(vector.weight.shape, DType::f32);
}

void BlockCompute::cached_forward(const BlockContext& context, const CachedForwardArgs& args) const {
  const ArenaScope scope(context.workspace);
  const auto saved = make_saved();
  ForwardArgs forward_args;
  forward_args.input = args.input;
  forward_args.output = args.output;
  forward(context, forward_args, context.workspace, *saved);
}

VocabularyRows own_rows(std::int64_t rows, const TensorParallel& tp) {
  const RowSplit split(rows, tp.size());
  return {split.begin(tp.rank()), split.count(tp.rank())};
}

void multiply_alone(Ops& ops, const PlainProduct& product) {
  ops.gather_matmul({.kind = product.kind, .shard = product.in, .w = product.w, .full = product.in, .out = product.out});
}

}  // namespace pipetrain
