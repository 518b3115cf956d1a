#include "model/parameters/gradient_norm.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "model/parameters/arena_views.hpp"

namespace pipetrain {

std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank) {
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    const bool replicated = parameter.split_axis < 0;
    if (is_trained(parameter.group) && !parameter.tied_copy && (!replicated || tp_rank == 0) && parameter.copy == 0)
      counted.push_back(i);
  }
  return counted;
}

std::vector<CountedPart> counted_parts(const ParameterLayout& layout, int tp_rank, const std::vector<HeldPart>& held) {
  const std::vector<std::size_t> counted = counted_parameters(layout, tp_rank);
  std::map<std::string, int> slices;
  std::vector<CountedPart> parts;
  auto next = held.begin();
  for (const std::size_t index : counted) {
    const Parameter& parameter = layout.parameters[index];
    const int slice = slices[parameter.name]++;
    next = std::find_if(next, held.end(), [&](const HeldPart& part) { return part.parameter >= index; });
    if (next == held.end() || next->parameter != index) continue;
    const bool whole = next->size() == static_cast<std::size_t>(parameter.local.elements());
    parts.push_back({index, slice, next->begin, next->end, parameter.grad_offset + next->begin, whole});
  }
  return parts;
}

std::vector<CountedPart> counted_parts(const ParameterLayout& layout, int tp_rank) {
  return counted_parts(layout, tp_rank, whole_parameters(layout));
}

std::size_t count_sums(const std::vector<CountedPart>& parts) {
  return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                         [](std::size_t sum, const CountedPart& part) { return sum + part.sums(); });
}

void square_sums(const std::vector<CountedPart>& parts, Ops& ops, const Tensor& grads, const Tensor& sums) {
  std::vector<SquareSumArgs> together;
  std::size_t next = 0;
  for (const CountedPart& part : parts) {
    const Tensor slice = span(grads, part.grads, part.end - part.begin), out = span(sums, next, part.sums());
    if (part.whole && slice.elements() > 0) {
      together.push_back({slice, out});
    } else if (part.whole) {
      ops.square_sum(slice, out);
    } else {
      ops.square_sums(slice, out);
    }
    next += part.sums();
  }
  ops.square_sum_each(together);
  assert(next <= static_cast<std::size_t>(sums.elements()));
}

void add_norm_parts(const ParameterLayout& layout, int tp_rank, const std::vector<CountedPart>& counted,
                    const std::vector<double>& sums, std::vector<NormPart>& parts) {
  std::size_t next = 0;
  for (const CountedPart& part : counted) {
    const std::size_t first = part.begin / norm_block_elements;
    for (std::size_t i = 0; i < part.sums(); ++i) {
      parts.push_back(
          {layout.parameters[part.parameter].name, tp_rank, sums.at(next++), part.slice, static_cast<std::int64_t>(first + i)});
    }
  }
}

double global_norm(std::vector<NormPart> parts) {
  const auto slice_of = [](const NormPart& part) { return std::tie(part.name, part.tp_rank, part.slice); };
  std::sort(parts.begin(), parts.end(), [](const NormPart& a, const NormPart& b) {
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
