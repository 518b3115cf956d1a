#include "model/parameters/block_plan.hpp"

#include <algorithm>

#include "core/process_group.hpp"

namespace pipetrain {
namespace {

GradientKind gradient_of(const TensorSpec& tensor) {
  if (tensor.shared) return GradientKind::shared;
  if (tensor.split == Split::none) return GradientKind::replicated;
  return is_matrix(tensor.role) ? GradientKind::product : GradientKind::summed;
}

// Returns the rank's slice, without an offset.
Parameter slice_of(const TensorSpec& tensor, int tp_rank, int tp_size) {
  Parameter slice;
  slice.name = tensor.name;
  slice.role = tensor.role;
  slice.full = slice.local = tensor.shape;
  slice.initialisation = tensor.initialisation;
  slice.decays = tensor.decays;
  slice.group = tensor.group;
  slice.expert = tensor.expert;
  slice.tied_copy = tensor.tied_copy;
  if (tensor.split != Split::none) {
    const int axis = tensor.split == Split::rows ? 0 : 1;
    const std::int64_t one_part = tensor.shape[axis] / tensor.part.count, size = one_part * tensor.part.span;
    const std::int64_t runs = size / tensor.indivisible;
    if (tensor.indivisible > 1 && runs < tp_size) slice.copies = static_cast<int>(tp_size / runs);
    slice.copy = tp_rank % slice.copies;
    const RowSplit ranks(size, tp_size / slice.copies);
    const int own = tp_rank / slice.copies;
    slice.local = tensor.shape.with(axis, ranks.count(own));
    slice.split_axis = axis;
    slice.begin = tensor.part.index * one_part + ranks.begin(own);
    if (slice.local == tensor.shape && slice.copies == 1) slice.split_axis = -1, slice.begin = 0;
  }
  slice.transposed = tensor.transposed;
  if (tensor.transposed) slice.local = {slice.local[1], slice.local[0]};
  return slice;
}

}  // namespace

std::int64_t whole_vectors(std::int64_t rows) {
  constexpr std::int64_t vector = 8, many = 1024;  // a vector: 16 bytes of bf16
  const std::int64_t multiple = rows % vector != 0 && rows >= many ? 128 : vector;
  return std::max<std::int64_t>((rows + multiple - 1) / multiple, 1) * multiple;
}

BlockPlan plan_block(const std::vector<TensorSpec>& tensors, int tp_rank, int tp_size) {
  BlockPlan plan;
  for (const TensorSpec& tensor : tensors) {
    const Parameter slice = slice_of(tensor, tp_rank, tp_size);
    if (plan.stored.empty() || plan.stored.back().role != tensor.role) {
      plan.stored.push_back({tensor.role, slice.local, gradient_of(tensor), tensor.group});
    } else {
      Shape& stacked = plan.stored.back().shape;
      stacked = stacked.with(0, stacked[0] + slice.local[0]);
    }
    if (slice.local.elements() > 0) plan.pieces.push_back({slice, plan.stored.size() - 1});
  }
  for (StoredPlan& stored : plan.stored) {
    const bool of_words = is_of_words(stored.role);
    if (of_words) stored.shape = stored.shape.with(0, whole_vectors(stored.shape[0]));
  }
  return plan;
}

}  // namespace pipetrain
