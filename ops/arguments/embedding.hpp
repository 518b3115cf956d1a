// The arguments of the lookup of tokens in a vocabulary.
#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

// This rank's rows of the vocabulary.
struct VocabularyRows {
  std::int64_t first = 0, count = 0;
};

struct EmbeddingArgs {
  TensorParallel tp = {};
  Tensor ids;             // [T] i32
  Tensor table;           // [V, H]
  std::int64_t first_id;  // the table's first row
  Tensor out;             // [Tr, H], output
};

struct EmbeddingGradArgs {
  Tensor ids;             // [T] i32
  Tensor dy;              // [T, H]
  std::int64_t first_id;  // the table's first row
  Tensor dtable;          // [V, H] f32 +=
};

}  // namespace pipetrain
