// Products of rows, sorted by expert, with their experts' matrices: in 8 bits where the matrices have such a form.
//
// All rows of a rank share one scale, and so do the matrices of all its experts, so that a result depends neither on the
// schedule nor on the stages. Weight gradients are products of the rows in 16 bits.
#pragma once

#include <optional>

#include "model/blocks/block_compute.hpp"
#include "model/experts/expert_exchange.hpp"

namespace pipetrain {

struct ExpertProductArgs {
  const BoundTensor& matrix;  // [E N, K]
  Tensor in;                  // [R, K], or of the backward [R, N]
  const ExpertRows& order;
  Tensor out;                            // [R, N], or of the backward [R, K], output
  std::optional<GroupedBias> bias = {};  // of the forward
  // [2] f32 that ends with the largest magnitude of in, or of more rows, and becomes in's scale; not given: it is searched for.
  std::optional<Tensor> scale = {};
};

// Returns the scale of rows that are multiplied with this matrix next, in `memory`, for the operation that makes them to end it
// with their largest magnitude; nothing where the matrix has no form in 8 bits.
std::optional<Tensor> scale_beside(const BoundTensor& matrix, Arena& memory);
std::optional<Tensor> place_of_largest(const std::optional<Tensor>& scale);

// out = in times the transpose of each row's matrix, plus the bias.
void multiply_rows(const BlockContext& context, const ExpertProductArgs& args);
// out = in times each row's matrix; in: a gradient of outputs.
void multiply_rows_back(const BlockContext& context, const ExpertProductArgs& args);

}  // namespace pipetrain
