#include "model/rotation/rotary_table.hpp"

#include <cmath>
#include <vector>

#include "catch.hpp"

using namespace pipetrain;

TEST_CASE("rotary frequencies follow Hugging Face's scalings", "[rotary]") {
  ModelConfig config;
  constexpr RotarySizes sizes{.head_dim = 16, .sequence = 3, .max_positions = 8192};
  const auto rotary_frequencies = [&](const ModelConfig& of) { return pipetrain::rotary_frequencies(of.rope, sizes); };
  config.rope.theta = 500000;
  const std::vector<float> plain = rotary_frequencies(config);
  for (std::size_t i = 0; i < 8; ++i) CHECK(plain[i] == Approx(std::pow(500000.0, -static_cast<double>(i) / 8)));

  config.rope.scaling = {RopeScaling::Kind::linear, 4};
  for (std::size_t i = 0; i < 8; ++i) CHECK(rotary_frequencies(config)[i] == Approx(plain[i] / 4));

  // Wavelengths 2 pi / frequency: 6, 32, 167, 862, 4443, 22911, 118143, 609226. Up to 8192 / 4 they stay, from 8192 on they
  // are divided, and 4443 lies in between: 8192 / 4443 = 1.8438 rotations, of which (1.8438 - 1) / (4 - 1) = 0.28128 stays.
  config.rope.scaling = {RopeScaling::Kind::llama3, 8, 1, 4, 8192};
  const std::vector<float> scaled = rotary_frequencies(config);
  for (const std::size_t i : {0, 1, 2, 3}) CHECK(scaled[i] == plain[i]);
  for (const std::size_t i : {5, 6, 7}) CHECK(scaled[i] == Approx(plain[i] / 8));
  CHECK(scaled[4] == Approx(plain[4] * (0.28128 + (1 - 0.28128) / 8)).epsilon(1e-4));

  const std::vector<float> table = rotary_table(config.rope, sizes);
  REQUIRE(table.size() == 3 * 2 * 8);
  CHECK(table[0] == 1);
  CHECK(table[8] == 0);
  CHECK(table[2 * 16 + 1] == Approx(std::cos(2 * plain[1])));
  CHECK(table[2 * 16 + 9] == Approx(std::sin(2 * plain[1])));
}

namespace {

using Kind = RopeScaling::Kind;

// As transformers 5.24 computes them.
void check_frequencies(const Rope& rope, const RotarySizes& sizes, const std::vector<double>& expected) {
  const std::vector<float> frequencies = rotary_frequencies(rope, sizes);
  REQUIRE(frequencies.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(frequencies[i] == Approx(expected[i]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("yarn blends frequencies by how often pairs turn, and multiplies cosines and sines", "[rotary]") {
  const RotarySizes sizes{.head_dim = 16, .sequence = 4, .max_positions = 8192};
  Rope rope{.scaling = {.kind = Kind::yarn, .factor = 4, .original_max_positions = 2048}};
  check_frequencies(rope, sizes, {1, 0.3162278, 0.1, 0.02569351, 0.00625, 0.001383496, 0.00025, 7.905694e-05});
  CHECK(rotary_magnitude(rope.scaling, 8192) == Approx(1.138629).epsilon(1e-6));
  const std::vector<float> table = rotary_table(rope, sizes);
  CHECK(table[0] == Approx(1.138629).epsilon(1e-6));
  CHECK(table[3 * 16 + 8 + 1] == Approx(1.138629 * std::sin(3 * 0.3162278)).epsilon(1e-6));
  rope.scaling.mscale = 2, rope.scaling.mscale_all_dim = 1;
  CHECK(rotary_magnitude(rope.scaling, 8192) == Approx((0.2 * std::log(4.0) + 1) / 1.138629).epsilon(1e-6));
  rope.scaling.attention_factor = 1.5;
  CHECK(rotary_magnitude(rope.scaling, 8192) == 1.5);
}

TEST_CASE("dynamic scaling changes nothing up to the model's positions, and longrope chooses its factors by the sequence",
          "[rotary]") {
  const std::vector<double> plain{1, 0.1, 0.01, 0.001};
  const Rope dynamic{.scaling = {.kind = Kind::dynamic, .factor = 2}};
  check_frequencies(dynamic, {.head_dim = 8, .sequence = 64, .max_positions = 64}, plain);
  const double theta = 1e4 * std::pow(2.0 * 2 - 1, 8.0 / 6);  // a sequence of twice the positions
  check_frequencies(dynamic, {.head_dim = 8, .sequence = 128, .max_positions = 64},
                    {1, std::pow(theta, -0.25), std::pow(theta, -0.5), std::pow(theta, -0.75)});
  const Rope longrope{
      .scaling = {
          .kind = Kind::longrope, .original_max_positions = 32, .short_factors = {1, 1, 1, 2}, .long_factors = {1, 2, 4, 8}}};
  check_frequencies(longrope, {.head_dim = 8, .sequence = 32, .max_positions = 128}, {1, 0.1, 0.01, 0.0005});
  check_frequencies(longrope, {.head_dim = 8, .sequence = 33, .max_positions = 128}, {1, 0.05, 0.0025, 0.000125});
  CHECK(rotary_magnitude(longrope.scaling, 128) == Approx(std::sqrt(1 + std::log(4.0) / std::log(32.0))));
}

TEST_CASE("a part of each head rotates with the frequencies of a head of its size", "[rotary]") {
  const Rope rope{.rotated_share = 0.5};
  check_frequencies(rope, {.head_dim = 16, .sequence = 1, .max_positions = 64}, {1, 0.1, 0.01, 0.001});
}
