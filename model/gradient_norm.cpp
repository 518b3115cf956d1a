#include "model/gradient_norm.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>
#include <utility>

#include "model/arena_views.hpp"

namespace pipetrain {

std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank) {
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const bool replicated = parameter.split_axis < 0;
    if (parameter.trainable && !parameter.tied_copy && (!replicated || tp_rank == 0)) counted.push_back(i);
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
  const auto slice_of = [](const NormPart& part) { return std::tie(part.name, part.tp_rank, part.slice); };
  // Stable: slices that are not numbered stay in the order they come in.
  std::stable_sort(parts.begin(), parts.end(), [](const NormPart& a, const NormPart& b) {
    return std::tie(a.name, a.tp_rank, a.slice, a.block) < std::tie(b.name, b.tp_rank, b.slice, b.block);
  });
  double sum = 0;
  for (auto part = parts.begin(); part != parts.end();) {
    double slice = part->square_sum;
    const auto first = part++;
    for (; part != parts.end() && slice_of(*part) == slice_of(*first) && part->block > 0; ++part) slice += part->square_sum;
    sum += slice;
  }
  return std::sqrt(sum);
}

float clip_factor(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? static_cast<float>(max_norm / norm) : 1.0F;
}

}  // namespace pipetrain
