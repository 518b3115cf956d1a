// The sizes of a router's inputs, and memory for its results, in tests of the operations of experts.
#pragma once

#include "ops/ops_bench.hpp"

namespace pipetrain::testing {

struct RouterCase {
  std::int64_t batch, sequence, experts, chosen;
  bool normalised;
  std::int64_t tokens() const { return batch * sequence; }
};

inline Routing poisoned_routing(Bench& b, const RouterCase& size) {
  const std::int64_t rows = size.tokens() * size.chosen;
  return {.probabilities = b.rank.poisoned({size.tokens(), size.experts}, DType::f32),
          .log_sum_exp = b.rank.poisoned({size.tokens()}, DType::f32),
          .experts = b.rank.poisoned({size.tokens(), size.chosen}, DType::i32),
          .places = b.rank.poisoned({size.tokens(), size.chosen}, DType::i32),
          .tokens = b.rank.poisoned({rows}, DType::i32),
          .weights = b.rank.poisoned({rows}, DType::f32),
          .offsets = b.rank.poisoned({size.experts + 1}, DType::i32)};
}

inline std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

}  // namespace pipetrain::testing
