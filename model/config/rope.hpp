// Rotary position embedding (Su et al. 2021) of a model, or of one type of its layers, with the scalings of Hugging Face.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pipetrain {

// Frequencies for contexts longer than trained on, named as Hugging Face's rope_type. rotary_table.hpp has the formulas.
struct RopeScaling {
  enum class Kind { none, linear, dynamic, llama3, yarn, longrope } kind = Kind::none;
  double factor = 1;  // how many times as long the context has become
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  std::int64_t original_max_positions = 8192;  // of llama3, yarn and longrope
  // For yarn: a pair with more than beta_fast rotations within the original context keeps its frequency, and the frequency of a
  // pair with less than beta_slow is divided. Where `truncates`, the bounds between pairs are rounded to whole pairs.
  double beta_fast = 32, beta_slow = 1;
  bool truncates = true;
  std::optional<double> mscale = {}, mscale_all_dim = {};
  // For yarn and longrope: cosines and sines are multiplied with it; absent: it follows from the factor.
  std::optional<double> attention_factor = {};
  // For longrope, one for each rotated pair: sequences up to the original context divide frequencies by the short ones, longer
  // sequences by the long ones.
  std::vector<double> short_factors = {}, long_factors = {};
  bool operator==(const RopeScaling&) const = default;
};

struct Rope {
  double theta = 1e4;
  RopeScaling scaling = {};
  double rotated_share = 1;  // the first columns of each head, rounded down, rotate; the others stay
  // Columns (2i, 2i + 1) rotate together rather than columns (i, i + half). For latent attention only.
  bool interleaved = false;
  bool operator==(const Rope&) const = default;

  // Returns the most positions of a text that rotates by the short factors of longrope; 0: all texts rotate alike.
  std::int64_t short_positions() const {
    return scaling.kind == RopeScaling::Kind::longrope ? scaling.original_max_positions : 0;
  }
  std::int64_t rotated_columns(std::int64_t head_dim) const {
    return static_cast<std::int64_t>(static_cast<double>(head_dim) * rotated_share);
  }
};

}  // namespace pipetrain
