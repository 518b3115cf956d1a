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

// Radians per position of each rotated pair: with n rotated columns, n / 2 values theta^(-2i / n), then the scaling:
//   linear    divides them by the factor
//   dynamic   takes a larger theta for a sequence of S above the P positions of the model: times
//             (factor S / P - factor + 1)^(n / (n - 2)), the NTK-aware scaling
//   llama3    keeps wavelengths below original_max_positions / high_freq_factor, divides those above original_max_positions /
//             low_freq_factor by the factor, and blends linearly in between (Llama 3.1)
//   yarn      keeps those of pairs that turn more than beta_fast times within original_max_positions, divides those of less
//   than
//             beta_slow turns by the factor, and blends linearly over the pairs in between (Peng et al. 2023, "YaRN")
//   longrope  divides each by a number of its own (Ding et al. 2024, "LongRoPE")
std::vector<float> rotary_frequencies(const Rope& rope, const RotarySizes& sizes);

// The number that cosines and sines are multiplied with. Unless the scaling gives it: of yarn m(mscale) / m(mscale_all_dim) or,
// where one of them is absent or 0, m(1), for m(s) = 0.1 s ln(factor) + 1; of longrope, with the factor f of max_positions over
// original_max_positions, sqrt(1 + ln f / ln original_max_positions); 1 where the factor is at most 1, and of other scalings.
double rotary_magnitude(const RopeScaling& scaling, std::int64_t max_positions);

// [sequence, 2, pairs]: cosines, then sines, of position x frequency. The product is rounded to fp32, as in the models this has
// to agree with.
std::vector<float> rotary_table(const Rope& rope, const RotarySizes& sizes);

}  // namespace pipetrain
