#include "model/blocks/rotary_table.hpp"

#include <cmath>
#include <numbers>

namespace pipetrain {
namespace {

float scaled(float frequency, const RopeScaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor);
  switch (scaling.kind) {
    case RopeScaling::Kind::none:
      return frequency;
    case RopeScaling::Kind::linear:
      return frequency / factor;
    case RopeScaling::Kind::llama3:
      break;
  }
  // The number of rotations of the pair within the original context: few rotations carry position, many carry order.
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  const float turns = static_cast<float>(scaling.original_max_positions) / wavelength;
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  if (turns < low) return frequency / factor;
  if (turns > high) return frequency;
  const float kept = (turns - low) / (high - low);
  return (1 - kept) * frequency / factor + kept * frequency;
}

}  // namespace

std::vector<float> rotary_frequencies(const ModelConfig& config) {
  std::vector<float> frequencies(static_cast<std::size_t>(config.head_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
    const auto power = static_cast<float>(std::pow(config.rope_theta, static_cast<double>(exponent)));
    frequencies[i] = scaled(1 / power, config.rope_scaling);
  }
  return frequencies;
}

std::vector<float> rotary_table(const ModelConfig& config, std::int64_t sequence) {
  const std::vector<float> frequencies = rotary_frequencies(config);
  const std::size_t half = frequencies.size();
  std::vector<float> table(static_cast<std::size_t>(sequence) * 2 * half);
  for (std::size_t position = 0; position < static_cast<std::size_t>(sequence); ++position) {
    float* cosines = table.data() + position * 2 * half;
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      cosines[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      cosines[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
  return table;
}

}  // namespace pipetrain
