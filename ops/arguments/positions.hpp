// The arguments of rotation, of the norms of heads that may rotate them, and of learned positions.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"

namespace pipetrain {

// If several documents share a sequence and must not attend to each other, `documents` [T] i32 holds for each
// token the position in its sequence (0 to sequence - 1) of its document's first token. Positions count from
// there. Absent: a sequence is one document.

struct RotaryArgs {
  Tensor qkv;      // [T, (Hq + 2 Hkv) D], in place
  Tensor cos_sin;  // [sequence, 2, R/2] f32, cosines then sines: the first R columns of each head rotate, R at most D
  std::optional<Tensor> documents = {};
  bool inverse = false;  // rotates back, as the backward does
};

// The norm that all query heads share, or that all key heads share, and what its backward reads.
struct HeadNorm {
  Tensor weight;   // [D]
  Tensor input;    // [T, heads D], the heads before the norm: written by the forward, overwritten by the backward
  Tensor inv_rms;  // [T heads] f32, written by the forward
};

struct HeadNormsArgs {
  Tensor qkv;              // [T, (Hq + 2 Hkv) D], in place: query and key heads
  HeadNorm queries, keys;  // their input and inv_rms are outputs
  float eps;
  float offset = 0;  // added to the weights
  // As in RotaryArgs. If given, the normed heads also rotate.
  std::optional<Tensor> cos_sin = {};
  std::optional<Tensor> documents = {};
};

struct HeadNormsBackwardArgs {
  Tensor dqkv;                        // [T, (Hq + 2 Hkv) D], in place: the gradient of the normed query and key heads
  HeadNorm queries, keys;             // the forward's
  Tensor dquery_weight, dkey_weight;  // [D] f32 +=
  float offset = 0;                   // the forward's
};

struct AddPositionsArgs {
  std::int64_t first_token = 0, sequence = 1;  // x holds tokens first_token, first_token + 1, ... of the microbatch
  Tensor table;                                // [at least sequence, H]
  Tensor x;                                    // [Tr, H] +=
  std::optional<Tensor> documents = {};
};

struct PositionsGradArgs {
  std::int64_t first_token = 0, sequence = 1;
  Tensor dy;      // [Tr, H]
  Tensor dtable;  // [at least sequence, H] f32 +=
  std::optional<Tensor> documents = {};
};

}  // namespace pipetrain
