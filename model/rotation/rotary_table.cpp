#include "model/rotation/rotary_table.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pipetrain {
namespace {

float llama3_frequency(float frequency, const RopeScaling& scaling) {
  const auto factor = static_cast<float>(scaling.factor);
  // The number of rotations of the pair within the original context: few rotations carry position, many carry order.
  const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
  const float turns = static_cast<float>(scaling.original_max_positions) / wavelength;
  const auto low = static_cast<float>(scaling.low_freq_factor), high = static_cast<float>(scaling.high_freq_factor);
  if (turns < low) return frequency / factor;
  if (turns > high) return frequency;
  const float kept = (turns - low) / (high - low);
  return (1 - kept) * frequency / factor + kept * frequency;
}

// The share of each pair's frequency that yarn divides by the factor, from 0 to 1.
class YarnRamp {
 public:
  YarnRamp(const Rope& rope, std::int64_t columns) {
    const RopeScaling& scaling = rope.scaling;
    // The pair that turns so often within the original context.
    const auto pair_of = [&](double turns) {
      const auto original = static_cast<double>(scaling.original_max_positions);
      return static_cast<double>(columns) * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
    };
    double low = pair_of(scaling.beta_fast), high = pair_of(scaling.beta_slow);
    if (scaling.truncates) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(columns - 1));
    if (low == high) high += 0.001;
    low_ = static_cast<float>(low), range_ = static_cast<float>(high - low);
  }
  float divided(std::size_t pair) const { return std::clamp((static_cast<float>(pair) - low_) / range_, 0.0F, 1.0F); }

 private:
  float low_, range_;
};

double theta_of(const Rope& rope, const RotarySizes& sizes, std::int64_t columns) {
  const RopeScaling& scaling = rope.scaling;
  if (scaling.kind != RopeScaling::Kind::dynamic || sizes.sequence <= sizes.max_positions || columns <= 2) return rope.theta;
  const double longer = static_cast<double>(sizes.sequence) / static_cast<double>(sizes.max_positions);
  return rope.theta * std::pow(scaling.factor * longer - (scaling.factor - 1),
                               static_cast<double>(columns) / static_cast<double>(columns - 2));
}

}  // namespace

std::vector<float> rotary_frequencies(const Rope& rope, const RotarySizes& sizes) {
  const RopeScaling& scaling = rope.scaling;
  const std::int64_t columns = rope.rotated_columns(sizes.head_dim);
  const double theta = theta_of(rope, sizes, columns);
  const YarnRamp ramp(rope, columns);
  const auto& own_factors = sizes.sequence > scaling.original_max_positions ? scaling.long_factors : scaling.short_factors;
  std::vector<float> frequencies(static_cast<std::size_t>(columns / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(columns);
    const auto power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
    const auto factor = static_cast<float>(scaling.factor);
    float& frequency = frequencies[i] = 1 / power;
    switch (scaling.kind) {
      case RopeScaling::Kind::none:
      case RopeScaling::Kind::dynamic:
        break;
      case RopeScaling::Kind::linear:
        frequency /= factor;
        break;
      case RopeScaling::Kind::llama3:
        frequency = llama3_frequency(frequency, scaling);
        break;
      case RopeScaling::Kind::yarn:
        frequency = 1 / (factor * power) * ramp.divided(i) + frequency * (1 - ramp.divided(i));
        break;
      case RopeScaling::Kind::longrope:
        frequency = 1 / (static_cast<float>(own_factors.at(i)) * power);
        break;
    }
  }
  return frequencies;
}

double rotary_magnitude(const RopeScaling& scaling, std::int64_t max_positions) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  const auto original = static_cast<double>(scaling.original_max_positions);
  if (scaling.kind == RopeScaling::Kind::longrope) {
    const double factor = static_cast<double>(max_positions) / original;
    return factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  }
  if (scaling.kind != RopeScaling::Kind::yarn || scaling.factor <= 1) return 1;
  const auto magnitude = [&](double scale) { return 0.1 * scale * std::log(scaling.factor) + 1; };
  const double scale = scaling.mscale.value_or(0), all = scaling.mscale_all_dim.value_or(0);
  return scale != 0 && all != 0 ? magnitude(scale) / magnitude(all) : magnitude(1);
}

double score_scale(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope.scaling;
  const double all = scaling.mscale_all_dim.value_or(0);
  if (!config.latent || scaling.kind == RopeScaling::Kind::none || all == 0 || scaling.factor <= 1) return config.score_scale;
  const double magnitude = 0.1 * all * std::log(scaling.factor) + 1;
  return magnitude * magnitude / std::sqrt(static_cast<double>(config.head_dim));
}

std::vector<float> rotary_table(const Rope& rope, const RotarySizes& sizes) {
  const std::vector<float> frequencies = rotary_frequencies(rope, sizes);
  const double magnitude = rotary_magnitude(rope.scaling, sizes.max_positions);
  const std::size_t half = frequencies.size();
  std::vector<float> table(static_cast<std::size_t>(sizes.sequence) * 2 * half);
  for (std::size_t position = 0; position < static_cast<std::size_t>(sizes.sequence); ++position) {
    float* cosines = table.data() + position * 2 * half;
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      cosines[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * magnitude);
      cosines[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)) * magnitude);
    }
  }
  return table;
}

}  // namespace pipetrain
