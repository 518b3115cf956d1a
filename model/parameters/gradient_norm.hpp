// The global gradient norm: fp64 sums of squares over fixed blocks of 65,536 elements of each slice of a logical tensor, added
// in a fixed order, so that no partition over stages and no sharding on block boundaries changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/parameters/parameters.hpp"
#include "model/parameters/shard_units.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// The parameters (indices into layout.parameters, in its order) whose gradients this rank counts in the norm: replicated ones
// on rank 0 only, tied copies and frozen ones never.
std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank);

// What a rank sums of one parameter's gradient: the whole of its slice, as one sum, or a run of norm blocks, one sum a block.
struct CountedPart {
  std::size_t parameter = 0;  // in layout.parameters
  int slice = 0;              // among the rank's slices of this logical tensor
  std::size_t begin = 0, end = 0;
  std::size_t grads = 0;  // where it begins in the gradient arena
  bool whole = true;

  std::size_t sums() const { return whole ? 1 : (end - begin + norm_block_elements - 1) / norm_block_elements; }
};
// Of what the rank holds (held_parts()), or of all of it.
std::vector<CountedPart> counted_parts(const ParameterLayout& layout, int tp_rank, const std::vector<HeldPart>& held);
std::vector<CountedPart> counted_parts(const ParameterLayout& layout, int tp_rank);
std::size_t count_sums(const std::vector<CountedPart>& parts);
// sums [count_sums(parts)] f64: the parts' sums of squares, in order.
void square_sums(const std::vector<CountedPart>& parts, Ops& ops, const Tensor& grads, const Tensor& sums);

// A sum of squares over whole blocks of one slice of a logical tensor.
struct NormPart {
  std::string name;  // the logical tensor's
  int tp_rank = 0;   // of the slice
  double square_sum = 0;
  int slice = 0;           // of the rank's slices of this tensor, in its layout's order
  std::int64_t block = 0;  // the first that is summed; whoever holds less than the slice gives each block by itself
};
// What these parts' sums (square_sums()) mean.
void add_norm_parts(const ParameterLayout& layout, int tp_rank, const std::vector<CountedPart>& counted,
                    const std::vector<double>& sums, std::vector<NormPart>& parts);
// The square root of all parts together, whatever order they come in. Added in fp64: the blocks of one slice in order, then the
// slices in the order of (name, tp_rank, slice). Pure.
double global_norm(std::vector<NormPart> parts);
// What clipping multiplies gradients by: max_norm / norm when the norm is larger, else 1. max_norm 0 means no clipping.
float clip_factor(double norm, double max_norm);

}  // namespace pipetrain
