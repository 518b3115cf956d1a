// The arguments of norms over the columns of rows.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"

namespace pipetrain {

// `largest` [1] f32, if given, receives the largest magnitude of the rounded result; NaN if an element is NaN.
// On GPUs in bf16 only.

struct RmsNormArgs {
  Tensor x;       // [Tr, H]
  Tensor weight;  // [H]
  float eps;
  Tensor y;                             // [Tr, H], output
  Tensor inv_rms;                       // [Tr] f32, output
  std::optional<Tensor> largest = {};   // of y
  float offset = 0;                     // added to the weight
  std::optional<Tensor> residual = {};  // [Tr, H], added to y before the one rounding; may be y's memory
};

struct RmsNormBackwardArgs {
  Tensor dy;                            // [Tr, H]
  Tensor x;                             // [Tr, H], the forward's
  Tensor weight;                        // [H]
  Tensor inv_rms;                       // [Tr] f32, the forward's
  std::optional<Tensor> residual = {};  // [Tr, H], added to dx before the one rounding
  Tensor dx;                            // [Tr, H], output; may be x's memory
  Tensor dweight;                       // [H] f32 +=
  float offset = 0;                     // the forward's
};

// An RMSNorm whose rows several ranks hold in parts: each rank adds up its columns, the ranks' sums are added, and each rank
// norms its own columns.

struct RowDotsArgs {
  Tensor a;                           // [R, N]
  Tensor b;                           // [R, N]
  std::optional<Tensor> weight = {};  // [N]
  Tensor sums;                        // [R] f32, output
};

struct SplitNormArgs {
  Tensor x;              // [R, N], this rank's columns
  Tensor weight;         // [N]
  Tensor square_sums;    // [R] f32, over the columns of all ranks
  std::int64_t columns;  // of all ranks
  float eps;
  Tensor y;        // [R, N], output
  Tensor inv_rms;  // [R] f32, output
};

struct SplitNormBackwardArgs {
  Tensor dy;             // [R, N]
  Tensor x;              // [R, N], the forward's
  Tensor weight;         // [N]
  Tensor inv_rms;        // [R] f32, the forward's
  Tensor dots;           // [R] f32, row_dots of dy, x and the weight over the columns of all ranks
  std::int64_t columns;  // of all ranks
  Tensor dx;             // [R, N], output; may be x's memory
  Tensor dweight;        // [N] f32 +=
};

struct LayerNormArgs {
  Tensor x;       // [Tr, H]
  Tensor weight;  // [H]
  Tensor bias;    // [H]
  float eps;
  Tensor y;                            // [Tr, H], output
  Tensor mean;                         // [Tr] f32, output
  Tensor inv_std;                      // [Tr] f32, output
  std::optional<Tensor> largest = {};  // of y
};

struct LayerNormBackwardArgs {
  Tensor dy;                                 // [Tr, H]
  Tensor x;                                  // [Tr, H], the forward's
  Tensor weight;                             // [H]
  Tensor mean;                               // [Tr] f32, the forward's
  Tensor inv_std;                            // [Tr] f32, the forward's
  std::optional<Tensor> residual = {};       // [Tr, H], added to dx before the one rounding
  Tensor dx;                                 // [Tr, H], output; may be x's memory
  Tensor dweight;                            // [H] f32 +=
  Tensor dbias;                              // [H] f32 +=
  std::optional<Tensor> residual_sums = {};  // [H] f32 += column sums of residual
};

}  // namespace pipetrain
