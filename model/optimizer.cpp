#include "model/optimizer.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>
#include <utility>

namespace pipetrain {
namespace {

Tensor span(const Tensor& arena, std::size_t begin, std::size_t elements) {
  return arena.row_range(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + elements));
}

const BlockParameters* find_block(const ParameterLayout& layout, BlockKind kind) {
  for (const BlockParameters& block : layout.blocks) {
    if (block.block.kind == kind) return &block;
  }
  return nullptr;
}

Tensor grad_of(const StoredTensor& tensor, const Tensor& grads) {
  return span(grads, tensor.grad_offset, static_cast<std::size_t>(tensor.shape.elements())).reshaped(tensor.shape);
}

}  // namespace

void sum_replicated_grads(const ParameterLayout& layout, int chunk, const TensorParallel& tp, Ops& ops, const Tensor& grads) {
  const Region region = layout.replicated_grads.at(static_cast<std::size_t>(chunk));
  if (!tp.sequence_parallel || tp.size() == 1 || region.size() == 0) return;
  tp.group->all_reduce(ops.stream(), span(grads, region.begin, region.size()), Reduction::sum);
}

TiedGrads tied_grads(const ParameterLayout& layout, const ModelConfig& config, const Tensor& grads) {
  TiedGrads tied;
  if (!config.tied_embeddings) return tied;
  if (const auto* embedding = find_block(layout, BlockKind::embedding)) {
    tied.embedding = grad_of(embedding->tensors.front(), grads);
  }
  if (const auto* head = find_block(layout, BlockKind::head)) tied.head = grad_of(head->tensors.back(), grads);
  return tied;
}

void sum_tied_grads(const TiedGrads& tied, Ops& ops) {
  if (tied.has_embedding() && tied.has_head()) ops.add(tied.embedding, tied.head);
}

std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank) {
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const bool replicated = parameter.split_axis < 0;
    if (!parameter.tied_copy && (!replicated || tp_rank == 0)) counted.push_back(i);
  }
  return counted;
}

void square_sums(const ParameterLayout& layout, int tp_rank, Ops& ops, const Tensor& grads, const Tensor& sums) {
  std::int64_t next = 0;
  for (const std::size_t i : counted_parameters(layout, tp_rank)) {
    const Parameter& parameter = layout.parameters[i];
    const Tensor slice = span(grads, parameter.grad_offset, static_cast<std::size_t>(parameter.local.elements()));
    ops.square_sum(slice, sums.row_range(next, next + 1));
    ++next;
  }
  assert(next <= sums.elements());
}

double global_norm(std::vector<NormPart> parts) {
  // Stable: several slices of one tensor stay in the order in which their rank has them.
  std::stable_sort(parts.begin(), parts.end(), [](const NormPart& a, const NormPart& b) {
    return std::tie(a.name, a.tp_rank) < std::tie(b.name, b.tp_rank);
  });
  double sum = 0;
  for (const NormPart& part : parts) sum += part.square_sum;
  return std::sqrt(sum);
}

float clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0F;
}

void adamw_step(const ParameterLayout& layout, Ops& ops, const OptimizerArenas& arenas, const AdamW& settings) {
  const bool has_embedding = find_block(layout, BlockKind::embedding) != nullptr;
  std::size_t next = 0;  // the first parameter of the stored tensor: both lists have one order
  for (const BlockParameters& block : layout.blocks) {
    for (const StoredTensor& tensor : block.tensors) {
      const auto elements = static_cast<std::size_t>(tensor.shape.elements());
      const Parameter& parameter = layout.parameters.at(next);
      assert(parameter.grad_offset == tensor.grad_offset);
      const auto inside = [&](const Parameter& other) {
        return other.grad_offset > tensor.grad_offset && other.grad_offset < tensor.grad_offset + elements;
      };
      do {
        ++next;
      } while (next < layout.parameters.size() && inside(layout.parameters[next]));
      if (parameter.tied_copy && has_embedding) continue;
      AdamW own = settings;
      if (!parameter.decays) own.weight_decay = 0;
      const auto weights = span(arenas.weights, tensor.offset, elements), m = span(arenas.m, tensor.offset, elements),
                 v = span(arenas.v, tensor.offset, elements), grads = span(arenas.grads, tensor.grad_offset, elements);
      if (arenas.rounded.data == nullptr) {
        ops.adamw({.weight = weights, .grad = grads, .m = m, .v = v}, own);
      } else {
        ops.adamw_rounded({.weight = weights, .grad = grads, .m = m, .v = v}, own,
                          span(arenas.rounded, tensor.offset, elements));
      }
    }
  }
}

}  // namespace pipetrain
