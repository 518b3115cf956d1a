// Relocation moves views when all values that a forward saved were copied to other memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.hpp"
#include "ops/arguments/experts.hpp"
#include "ops/fp8_matrix.hpp"

namespace pipetrain {

struct Relocation {
  const void* from = nullptr;
  std::size_t bytes = 0;
  void* to = nullptr;

  // Views of other memory stay as they are.
  void move(Tensor& view) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(from), at = reinterpret_cast<std::uintptr_t>(view.data);
    if (at >= begin && at - begin < bytes) view.data = static_cast<char*>(to) + (at - begin);
  }
  void move(Fp8Matrix& matrix) const {
    for (Tensor* const view : {&matrix.rows, &matrix.cols, &matrix.scale, &matrix.row_scales, &matrix.col_scales}) move(*view);
  }
  void move(Routing& routing) const {
    for (Tensor* const view : {&routing.probabilities, &routing.log_sum_exp, &routing.experts, &routing.places, &routing.tokens,
                               &routing.weights, &routing.offsets})
      move(*view);
  }
  void move(SentTokens& sent) const {
    for (Tensor* const view : {&sent.tokens, &sent.experts, &sent.weights, &sent.offsets, &sent.places}) move(*view);
  }
  void move(ReceivedRows& rows) const {
    for (Tensor* const view : {&rows.tokens, &rows.weights, &rows.offsets, &rows.returned, &rows.return_offsets}) move(*view);
  }
};

}  // namespace pipetrain
