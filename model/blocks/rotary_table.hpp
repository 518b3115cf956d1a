// Rotary position embedding's angles (Su et al. 2021), as Hugging Face's Llama computes them.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

// Radians per position of each rotated pair, head_dim / 2 values: rope_theta^(-2i / head_dim), then config.rope_scaling.
// llama3 scaling keeps wavelengths below original_max_positions / high_freq_factor, divides those above
// original_max_positions / low_freq_factor by the factor, and blends linearly in between (Llama 3.1).
std::vector<float> rotary_frequencies(const ModelConfig& config);

// [sequence, 2, head_dim / 2]: cosines, then sines, of position x frequency. The product is rounded to fp32, as
// in the models that this code must agree with.
std::vector<float> rotary_table(const ModelConfig& config, std::int64_t sequence);

}  // namespace pipetrain
