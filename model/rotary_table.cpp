#include "model/rotary_table.hpp"

#include <cmath>
#include <numbers>

namespace pipetrain {
namespace {

double scaled(double frequency, const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScaling::Kind::none:
      return frequency;
    case RopeScaling::Kind::linear:
      return frequency / scaling.factor;
    case RopeScaling::Kind::llama3:
      break;
  }
  // How often the pair turns around within the original context: few turns carry position, many carry order.
  const double turns = static_cast<double>(scaling.original_max_positions) * frequency / (2 * std::numbers::pi);
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

}  // namespace

std::vector<float> rotary_frequencies(const ModelConfig& config) {
  std::vector<float> frequencies(static_cast<std::size_t>(config.head_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    frequencies[i] = static_cast<float>(scaled(std::pow(config.rope_theta, exponent), config.rope_scaling));
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
