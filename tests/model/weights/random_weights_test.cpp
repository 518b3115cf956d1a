#include <algorithm>
#include <array>
#include <cmath>

#include "catch.hpp"
#include "core/philox.hpp"
#include "model/weights/weights_fixture.hpp"

namespace pipetrain {
namespace {

TEST_CASE("Philox4x32-10 gives its authors' known answers") {
  struct Known {
    PhiloxKey key;
    std::array<std::uint32_t, 4> counter, words;
  };
  const std::array known{Known{{0, 0}, {0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
                         Known{{~0U, ~0U}, {~0U, ~0U, ~0U, ~0U}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
                         Known{{0xa4093822, 0x299f31d0},
                               {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  PhiloxWords<1> words;
  for (const Known& example : known) {
    for (std::size_t i = 0; i < 4; ++i) words[i][0] = example.counter[i];
    philox(example.key, words);
    for (std::size_t i = 0; i < 4; ++i) CHECK(words[i][0] == example.words[i]);
  }
}

TEST_CASE("random weights: a slice is the slice of the full tensor, whatever the layout") {
  const ModelConfig config = small_config(GENERATE(false, true));
  check_slices(*random_weights(config, 3), config);
}

TEST_CASE("random weights are normal with the configured deviation; norms are 1") {
  ModelConfig config = small_config();
  config.init_std = 0.5;
  const auto source = random_weights(config, 5);
  CHECK(load(*source, whole({"model.norm.weight", {32}}, Initialisation::ones)) == std::vector<float>(32, 1.0F));

  std::vector<float> values = load(*source, whole({"lm_head.weight", {1000, 1000}}));
  const double n = static_cast<double>(values.size());
  std::array<double, 5> moments{};
  double neighbours = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i] / 0.5;
    for (std::size_t power = 1; power < 5; ++power) moments[power] += std::pow(x, static_cast<double>(power)) / n;
    if (i > 0) neighbours += x * values[i - 1] / 0.5 / n;
  }
  // Within five standard errors of 0, 1, 0, 3 and of no correlation.
  CHECK(std::fabs(moments[1]) < 5 * std::sqrt(1 / n));
  CHECK(std::fabs(moments[2] - 1) < 5 * std::sqrt(2 / n));
  CHECK(std::fabs(moments[3]) < 5 * std::sqrt(15 / n));
  CHECK(std::fabs(moments[4] - 3) < 5 * std::sqrt(96 / n));
  CHECK(std::fabs(neighbours) < 5 * std::sqrt(1 / n));

  // The largest distance to the normal distribution function (Kolmogorov); above 1.95 / sqrt(n) once in a thousand.
  std::sort(values.begin(), values.end());
  double distance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = 0.5 * std::erfc(-values[i] / 0.5 / std::sqrt(2.0));
    distance = std::max(distance, std::fabs(static_cast<double>(i) / n - expected));
  }
  CHECK(distance < 1.95 / std::sqrt(n));
}

TEST_CASE("random weights depend on the seed and the name, and on nothing else") {
  const ModelConfig config = small_config();
  const Parameter a = whole({"a", {8, 8}}), b = whole({"b", {8, 8}});
  CHECK(load(*random_weights(config, 1), a) == load(*random_weights(config, 1), a));
  CHECK(load(*random_weights(config, 1), a) != load(*random_weights(config, 2), a));
  CHECK(load(*random_weights(config, 1), a) != load(*random_weights(config, 1), b));
  CHECK(load(*random_weights(config, 1), a) != load(*random_weights(config, std::uint64_t{1} << 32 | 1), a));
}

}  // namespace
}  // namespace pipetrain
