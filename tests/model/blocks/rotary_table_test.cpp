#include "model/blocks/rotary_table.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("rotary frequencies follow Hugging Face's scalings", "[rotary]") {
  ModelConfig config;
  config.head_dim = 16;
  config.rope_theta = 500000;
  const std::vector<float> plain = rotary_frequencies(config);
  for (std::size_t i = 0; i < 8; ++i) CHECK(plain[i] == Approx(std::pow(500000.0, -static_cast<double>(i) / 8)));

  config.rope_scaling = {RopeScaling::Kind::linear, 4};
  for (std::size_t i = 0; i < 8; ++i) CHECK(rotary_frequencies(config)[i] == Approx(plain[i] / 4));

  // Wavelengths 2 pi / frequency: 6, 32, 167, 862, 4443, 22911, 118143, 609226. Up to 8192 / 4 they stay, from 8192 on they
  // are divided, and 4443 lies in between: 8192 / 4443 = 1.8438 rotations, of which (1.8438 - 1) / (4 - 1) = 0.28128 stays.
  config.rope_scaling = {RopeScaling::Kind::llama3, 8, 1, 4, 8192};
  const std::vector<float> scaled = rotary_frequencies(config);
  for (const std::size_t i : {0, 1, 2, 3}) CHECK(scaled[i] == plain[i]);
  for (const std::size_t i : {5, 6, 7}) CHECK(scaled[i] == Approx(plain[i] / 8));
  CHECK(scaled[4] == Approx(plain[4] * (0.28128 + (1 - 0.28128) / 8)).epsilon(1e-4));

  const std::vector<float> table = rotary_table(config, 3);
  REQUIRE(table.size() == 3 * 2 * 8);
  CHECK(table[0] == 1);
  CHECK(table[8] == 0);
  CHECK(table[2 * 16 + 1] == Approx(std::cos(2 * plain[1])));
  CHECK(table[2 * 16 + 9] == Approx(std::sin(2 * plain[1])));
}
