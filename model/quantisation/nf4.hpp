// The numbers of nf4 with double quantisation (ops/quantised_matrix.hpp), as bitsandbytes computes them on GPUs
// (github.com/bitsandbytes-foundation/bitsandbytes). Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/quantised_matrix.hpp"

namespace pipetrain {

// The levels of a 4-bit normal float, rising: quantiles of a normal distribution, scaled to [-1, 1], with an exact zero
// (Dettmers et al. 2023, "QLoRA", appendix E).
inline constexpr std::array<float, nf4_levels> nf4_level_values = {-1.0F,
                                                                   -0.6961928009986877F,
                                                                   -0.5250730514526367F,
                                                                   -0.39491748809814453F,
                                                                   -0.28444138169288635F,
                                                                   -0.18477343022823334F,
                                                                   -0.09105003625154495F,
                                                                   0.0F,
                                                                   0.07958029955625534F,
                                                                   0.16093020141124725F,
                                                                   0.24611230194568634F,
                                                                   0.33791524171829224F,
                                                                   0.44070982933044434F,
                                                                   0.5626170039176941F,
                                                                   0.7229568362236023F,
                                                                   1.0F};

// Returns the number that each code of a scale stands for, in ascending order: 0, 1, and signed numbers of 7 decades, where
// each decade has twice as many numbers as the next smaller one (Dettmers 2016, "8-Bit Approximations for Parallelism in Deep
// Learning").
const std::array<float, nf4_scale_map>& nf4_scale_values();

// Returns the largest magnitude of each block of nf4_block values; the last block may be shorter.
std::vector<float> nf4_scales_of(std::span<const float> values);
// codes = the number of the level nearest to each value times 1 / scale; of two that are equally near, the lower one. The
// values share the scale.
void nf4_codes_of(std::span<const float> values, float scale, std::uint8_t* codes);

// Scales in 8 bits.
struct Nf4ScaleCodes {
  std::vector<std::uint8_t> codes;  // one for each scale
  std::vector<float> scales;        // one for each nf4_scale_group of them
  // The mean of the scales, added in fp64, in each group and then over the groups; bitsandbytes adds them in fp32, in an order
  // of its own.
  float mean = 0;
};
Nf4ScaleCodes nf4_code_scales(std::span<const float> scales);

}  // namespace pipetrain
