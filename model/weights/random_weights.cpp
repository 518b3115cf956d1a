// Initial weights as a pure function of (seed, tensor name, element): see ops/normal_draw.hpp. The code works on independent
// lanes, so that the compiler vectorises it.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.hpp"
#include "core/philox.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

constexpr std::size_t lanes = 64;  // blocks that are computed together

// FNV-1a, 64 bits.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

class RandomWeights : public WeightSource {
 public:
  RandomWeights(const ModelConfig& config, std::uint64_t seed)
      : key_{low_word(seed), high_word(seed)},
        std_(static_cast<float>(config.init_std)),
        residual_std_(static_cast<float>(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers)))) {}

  void load(const Parameter& parameter, float* out) const override {
    switch (parameter.initialisation) {
      case Initialisation::ones:
        std::fill_n(out, parameter.local.elements(), 1.0F);
        return;
      case Initialisation::zeros:
        std::fill_n(out, parameter.local.elements(), 0.0F);
        return;
      case Initialisation::normal:
      case Initialisation::residual_normal:
        return draw(parameter, out);
      case Initialisation::row_norms:
        throw Error(ErrorKind::internal, parameter.name + " begins with the norms of a matrix, which is not drawn");
      case Initialisation::input_uniform:
        return draw_uniform(parameter, out);
    }
  }
  std::optional<NormalDraw> drawn(const Parameter& parameter) const override {
    const bool is_normal =
        parameter.initialisation == Initialisation::normal || parameter.initialisation == Initialisation::residual_normal;
    return is_normal ? std::optional(normals_of(parameter)) : std::nullopt;
  }

 private:
  // The parameter must begin with normals.
  NormalDraw normals_of(const Parameter& parameter) const {
    return {key_, hash_of(parameter.name), parameter.initialisation == Initialisation::normal ? std_ : residual_std_};
  }

  void draw(const Parameter& parameter, float* out) const {
    const NormalDraw drawn = normals_of(parameter);
    read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) {
      fill(drawn, static_cast<std::uint64_t>(first), static_cast<std::size_t>(count), to);
    });
  }

  // out = elements [first, first + count) of the tensor.
  static void fill(const NormalDraw& drawn, std::uint64_t first, std::size_t count, float* out) {
    std::array<float, lanes * normals_of_block> values;
    std::uint64_t block = first / normals_of_block;
    std::size_t skipped = first % normals_of_block;
    while (count > 0) {
      compute(drawn, block, values.data());
      const std::size_t used = std::min(count, values.size() - skipped);
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(skipped), used, out);
      out += used;
      count -= used;
      block += lanes;
      skipped = 0;
    }
  }

  // Element i of the full tensor comes from word i mod 4 of block i / 4.
  void draw_uniform(const Parameter& parameter, float* out) const {
    const std::uint64_t name = hash_of(parameter.name);
    const float bound = static_cast<float>(1 / std::sqrt(static_cast<double>(parameter.full[1])));
    read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto element = static_cast<std::uint64_t>(first + i), block = element / normals_of_block;
        PhiloxWords<1> words{{{low_word(block)}, {high_word(block)}, {low_word(name)}, {high_word(name)}}};
        philox(key_, words);
        const std::uint32_t word = words[element % normals_of_block][0] >> 8;  // 24 bits, exact in a float
        to[i] = (static_cast<float>(word) * 0x1p-23F - 1) * bound;
      }
    });
  }

  static void compute(const NormalDraw& drawn, std::uint64_t first_block, float* values) {
    PhiloxWords<lanes> words;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      words[0][lane] = low_word(first_block + lane);
      words[1][lane] = high_word(first_block + lane);
      words[2][lane] = low_word(drawn.name);
      words[3][lane] = high_word(drawn.name);
    }
    philox(drawn.key, words);
    for (std::size_t pair = 0; pair < 2; ++pair) {
      std::array<float, lanes> first, second;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const NormalPair normals = normal_pair(words[2 * pair][lane], words[2 * pair + 1][lane]);
        first[lane] = normals.first * drawn.deviation;
        second[lane] = normals.second * drawn.deviation;
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        values[4 * lane + 2 * pair] = first[lane];
        values[4 * lane + 2 * pair + 1] = second[lane];
      }
    }
  }

  PhiloxKey key_;
  float std_;
  float residual_std_;  // for the matrices whose output is added to the residual stream
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(const ModelConfig& config, std::uint64_t seed) {
  return std::make_unique<RandomWeights>(config, seed);
}

}  // namespace pipetrain
