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

// Returns the parameters (indices into layout.parameters, in its order) whose gradients this rank counts in the norm:
// replicated ones on rank 0 only, tied copies and frozen ones never.
std::vector<std::size_t> counted_parameters(const ParameterLayout& layout, int tp_rank);

// The part of one parameter's gradient that a rank sums: its whole slice, as one sum, or a range of norm
// blocks, one sum a block.
struct CountedPart {
  std::size_t parameter = 0;  // in layout.parameters
  int slice = 0;              // among the rank's slices of this logical tensor
  std::size_t begin = 0, end = 0;
  std::size_t grads = 0;  // its first element in the gradient arena
  bool whole = true;

  std::size_t sums() const { return whole ? 1 : (end - begin + norm_block_elements - 1) / norm_block_elements; }
};
// Returns the parts of the tensors that the rank holds (held_parts()), or of all parameters if no parts are given.
std::vector<CountedPart> counted_parts(const ParameterLayout& layout, int tp_rank, const std::vector<HeldPart>& held);
std::vector<CountedPart> counted_parts(const ParameterLayout& layout, int tp_rank);
std::size_t count_sums(const std::vector<CountedPart>& parts);
// sums [count_sums(parts)] f64: the parts' sums of squares, in order.
void square_sums(const std::vector<CountedPart>& parts, Ops& ops, const Tensor& grads, const Tensor& sums);

// The sum of squares over whole blocks of one slice of a logical tensor.
struct NormPart {
  std::string name;  // the logical tensor's
  int tp_rank = 0;   // of the rank that holds the slice
  double square_sum = 0;
  int slice = 0;  // among the rank's slices of this tensor, in its layout's order
  // The first block that is summed; a rank that holds less than the slice reports each block by itself.
  std::int64_t block = 0;
};
// Turns these parts' sums (square_sums()) into NormParts.
void add_norm_parts(const ParameterLayout& layout, int tp_rank, const std::vector<CountedPart>& counted,
                    const std::vector<double>& sums, std::vector<NormPart>& parts);
// Returns the square root of the sum of all parts, whatever order they come in. Adds in fp64: the blocks of one
// slice in order, then the slices in the order of (name, tp_rank, slice). Pure.
double global_norm(std::vector<NormPart> parts);
// Returns the factor by which clipping multiplies gradients: max_norm / norm if the norm is larger, else 1.
// max_norm 0 disables clipping.
float clip_factor(double norm, double max_norm);

}  // namespace pipetrain
