// The factors by which dropout multiplies a range of adjacent elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/dropout.hpp"

namespace pipetrain::cpu {

// The position of a row in its logical tensor, as ops/dropout.hpp counts.
struct DropoutRow {
  std::uint32_t sample = 0, row = 0, plane = 0;
};

// factors[i] = 0 if column `first` + i is dropped, else the scale.
inline void dropout_factors(const Dropout& dropout, const DropoutRow& row, std::int64_t first, std::int64_t count,
                            float* factors) {
  constexpr std::size_t lanes = 32;
  const float scale = dropout.scale();
  std::int64_t block = first / dropout_columns, skipped = first % dropout_columns;
  while (count > 0) {
    PhiloxWords<lanes> words;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      words[0][lane] = static_cast<std::uint32_t>(block) + static_cast<std::uint32_t>(lane);
      words[1][lane] = row.row;
      words[2][lane] = row.sample;
      words[3][lane] = row.plane;
    }
    philox(dropout.key, words);
    float drawn[lanes * dropout_columns];
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      for (int i = 0; i < dropout_columns; ++i) {
        drawn[lane * dropout_columns + static_cast<std::size_t>(i)] =
            dropout_draw(words, lane, i) < dropout.dropped ? 0.0F : scale;
      }
    }
    const std::int64_t used = std::min(count, static_cast<std::int64_t>(lanes) * dropout_columns - skipped);
    std::copy_n(drawn + skipped, used, factors);
    factors += used;
    count -= used;
    block += lanes;
    skipped = 0;
  }
}

}  // namespace pipetrain::cpu
