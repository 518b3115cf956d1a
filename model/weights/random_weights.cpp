// Initial weights as a pure function of (seed, tensor name, element): Philox words are turned into normals by
// the method of Box and Muller 1958. The code is plain arithmetic of exactly rounded operations, over
// independent lanes: the compiler vectorises it, and every machine and every slicing gives the same bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include "core/error.hpp"
#include "core/philox.hpp"
#include "model/parameters/parameter_slice.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {
namespace {

constexpr std::uint64_t words_a_block = 4;  // a Philox block's words give as many normals
constexpr std::size_t lanes = 64;           // blocks that are computed together

// FNV-1a, 64 bits.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

// ln x for normal x > 0, within 2 units in the last place of float: x = m 2^e with m in [sqrt(1/2), sqrt(2)), and
// ln m = 2 atanh((m - 1) / (m + 1)) by its series.
float natural_log(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  constexpr std::int32_t sqrt_half = 0x3f3504f3;
  const std::int32_t exponent = (bits - sqrt_half) >> 23;
  const float m = std::bit_cast<float>(bits - exponent * (1 << 23));
  const float s = (m - 1) / (m + 1), s2 = s * s;
  const float series = 1 + s2 * (1.0F / 3 + s2 * (1.0F / 5 + s2 * (1.0F / 7 + s2 * (1.0F / 9))));
  return static_cast<float>(exponent) * std::numbers::ln2_v<float> + 2 * s * series;
}

// Two independent normals from two words: the radius comes from one, the angle from the other (30 bits choose
// within an eighth of a circle to either side, 2 bits choose the quarter).
struct Normals {
  float first, second;
};
Normals normal_pair(std::uint32_t radius_word, std::uint32_t angle_word) {
  const float uniform = (static_cast<float>(static_cast<std::int32_t>(radius_word >> 1)) + 0.5F) * 0x1p-31F;  // in (0, 1]
  const float radius = std::sqrt(-2 * natural_log(uniform));

  const auto centred = static_cast<std::int32_t>(angle_word >> 2) - (1 << 29);
  const float x = (static_cast<float>(centred) + 0.5F) * (std::numbers::pi_v<float> / 4 * 0x1p-29F), x2 = x * x;
  const float cosine = 1 - x2 / 2 * (1 - x2 / 12 * (1 - x2 / 30 * (1 - x2 / 56 * (1 - x2 / 90))));
  const float sine = x * (1 - x2 / 6 * (1 - x2 / 20 * (1 - x2 / 42 * (1 - x2 / 72))));
  const float along = (angle_word & 1U) != 0 ? sine : cosine, across = (angle_word & 1U) != 0 ? cosine : sine;
  const float signed_radius = (angle_word & 2U) != 0 ? -radius : radius;
  return {signed_radius * along, signed_radius * across};
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
        return draw(parameter, std_, out);
      case Initialisation::residual_normal:
        return draw(parameter, residual_std_, out);
      case Initialisation::row_norms:
        throw Error(ErrorKind::internal, parameter.name + " begins with the norms of a matrix, which is not drawn");
      case Initialisation::input_uniform:
        return draw_uniform(parameter, out);
    }
  }

 private:
  void draw(const Parameter& parameter, float deviation, float* out) const {
    const std::uint64_t name = hash_of(parameter.name);
    read_slice(parameter, out, [&](std::int64_t first, std::int64_t count, float* to) {
      fill(name, deviation, static_cast<std::uint64_t>(first), static_cast<std::size_t>(count), to);
    });
  }

  // out = elements [first, first + count) of the named tensor.
  void fill(std::uint64_t name, float deviation, std::uint64_t first, std::size_t count, float* out) const {
    std::array<float, lanes * words_a_block> values;
    std::uint64_t block = first / words_a_block;
    std::size_t skipped = first % words_a_block;
    while (count > 0) {
      compute(name, deviation, block, values.data());
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
        const auto element = static_cast<std::uint64_t>(first + i), block = element / words_a_block;
        PhiloxWords<1> words{{{low_word(block)}, {high_word(block)}, {low_word(name)}, {high_word(name)}}};
        philox(key_, words);
        const std::uint32_t word = words[element % words_a_block][0] >> 8;  // 24 bits, exact in a float
        to[i] = (static_cast<float>(word) * 0x1p-23F - 1) * bound;
      }
    });
  }

  void compute(std::uint64_t name, float deviation, std::uint64_t first_block, float* values) const {
    PhiloxWords<lanes> words;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      words[0][lane] = low_word(first_block + lane);
      words[1][lane] = high_word(first_block + lane);
      words[2][lane] = low_word(name);
      words[3][lane] = high_word(name);
    }
    philox(key_, words);
    for (std::size_t pair = 0; pair < 2; ++pair) {
      std::array<float, lanes> first, second;
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const Normals normals = normal_pair(words[2 * pair][lane], words[2 * pair + 1][lane]);
        first[lane] = normals.first * deviation;
        second[lane] = normals.second * deviation;
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
