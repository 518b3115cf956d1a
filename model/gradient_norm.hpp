// The global gradient norm: fp64 sums of squares over fixed blocks of 65,536 elements of each slice of a logical tensor, added
// in a fixed order, so that no partition over stages and no sharding on block boundaries changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/parameters.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// The parameters (indices into layout.parameters, in its order) whose gradients this rank counts in the norm: replicated ones
// on rank 0 only, tied copies and what is not trainable never.
std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank);
// sums [counted parameters] f64: the sum of squares of each one's gradient slice, by Ops::square_sum.
void square_sums(const ParameterLayout& layout, int tp_rank, Ops& ops, const Tensor& grads, const Tensor& sums);

// A sum of squares over whole blocks of one slice of a logical tensor.
struct NormPart {
  std::string name;  // the logical tensor's
  int tp_rank = 0;   // of the slice
  double square_sum = 0;
  int slice = 0;           // of the rank's slices of this tensor, in its layout's order
  std::int64_t block = 0;  // the first that is summed; whoever holds less than the slice gives each block by itself
};
// The square root of all parts together, whatever order they come in. Added in fp64: the blocks of one slice in order, then the
// slices in the order of (name, tp_rank, slice). Pure.
double global_norm(std::vector<NormPart> parts);
// What clipping multiplies gradients by: max_norm / norm when the norm is larger, else 1. max_norm 0 means no clipping.
float clip_factor(double norm, double max_norm);

}  // namespace pipetrain
