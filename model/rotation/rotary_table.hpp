// Rotary position embedding's angles (Su et al. 2021), as Hugging Face's models compute them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

struct RotarySizes {
  std::int64_t head_dim = 0;
  std::int64_t sequence = 0;       // of the run; dynamic and longrope tell long sequences from short ones by it
  std::int64_t max_positions = 0;  // ModelConfig::max_positions
};

// Returns the radians per position of each rotated pair. With n rotated columns these are the n / 2 values theta^(-2i / n),
// then the scaling changes them:
//   linear    divides them by the factor
//   dynamic   multiplies theta, for a sequence of S above the model's P positions, by
//             (factor S / P - factor + 1)^(n / (n - 2)) ("NTK-aware" scaling)
//   llama3    keeps wavelengths below original_max_positions / high_freq_factor, divides those above
//             original_max_positions / low_freq_factor by the factor, and blends linearly in between (Llama 3.1)
//   yarn      keeps pairs with more than beta_fast rotations within original_max_positions, divides pairs with less than
//             beta_slow by the factor, and blends linearly over the pairs in between (Peng et al. 2023, "YaRN")
//   longrope  divides each frequency by a factor of its own (Ding et al. 2024, "LongRoPE")
std::vector<float> rotary_frequencies(const Rope& rope, const RotarySizes& sizes);

// Returns the factor of cosines and sines. It is the scaling's attention_factor if there is one. Otherwise, with
// m(s) = 0.1 s ln(factor) + 1, yarn has m(mscale) / m(mscale_all_dim), or m(1) if one of them is absent or 0; longrope has
// sqrt(1 + ln f / ln original_max_positions) for f = max_positions / original_max_positions. Other scalings, and factors up to
// 1, have 1.
double rotary_magnitude(const RopeScaling& scaling, std::int64_t max_positions);

// Returns the factor of attention's scores, 0 where it is the usual one of the heads' size. Yarn changes that of latent
// attention by the square of 0.1 mscale_all_dim ln(factor) + 1 (DeepSeek-AI 2024, "DeepSeek-V2", section 3.1.4).
double score_scale(const ModelConfig& config);

// Returns [sequence, 2, pairs]: cosines, then sines, of position x frequency. The product is rounded to fp32, as in the models
// that this code must agree with.
std::vector<float> rotary_table(const Rope& rope, const RotarySizes& sizes);

}  // namespace pipetrain
