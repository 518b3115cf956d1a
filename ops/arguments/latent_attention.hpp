// The arguments of attention whose keys and values come from a latent vector of each token.
#pragma once

#include <optional>

#include "core/tensor.hpp"

namespace pipetrain {

// The queries, keys and values of a latent attention (DeepSeek-AI 2024, "DeepSeek-V2"), with as many key heads as query heads.
// A head's queries and keys have P columns that stay, then R columns that rotate, P + R = D; values have V columns.
struct LatentHeadsArgs {
  Tensor q;                  // [T, Hq D]
  Tensor key_value;          // [T, Hq (P + V)]: of each head, the first columns of its keys, then its values
  Tensor rotated;            // [T, R]: the last columns of the keys of all heads
  Tensor cos_sin;            // [sequence, 2, R/2] f32, as in RotaryArgs
  bool interleaved = false;  // columns (2i, 2i + 1) rotate together, instead of columns (i, i + R/2)
  std::optional<Tensor> documents = {};
  Tensor qkv;  // [T, Hq (2 D + V)], output: rotated, as attention reads it
};

struct LatentHeadsBackwardArgs {
  Tensor dqkv;
  Tensor cos_sin;
  bool interleaved = false;
  std::optional<Tensor> documents = {};
  Tensor dq, dkey_value;  // as the forward's, output
  Tensor drotated;        // [T, R] f32, output: summed over this rank's heads
};

// As CachedAttentionArgs, for latent attention: the cache has the K numbers of a position's latent vector, then its R rotated
// columns.
struct CachedLatentAttentionArgs {
  Tensor q;        // [T, Hq D], not rotated yet
  Tensor latent;   // [T, K]: of the positions from shape.first_query on
  Tensor rotated;  // [T, R], not rotated yet
  Tensor expand;   // [Hq (P + V), K]: the matrix whose product with `latent` is LatentHeadsArgs::key_value
  Tensor cos_sin;  // [T, 2, R/2] f32: of these positions
  bool interleaved = false;
  Tensor cache;  // [positions, K + R]: rows below shape.first_query are read, the T rows from it on are written
  Tensor out;    // [T, Hq V], output
};

}  // namespace pipetrain
