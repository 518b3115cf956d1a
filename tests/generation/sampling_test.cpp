#include "actors/generation/sampling.hpp"

#include <cmath>
#include <limits>
#include <map>

#include "catch.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

using Ids = std::vector<std::int32_t>;

// Returns how often each token is drawn.
std::map<std::int32_t, double> frequencies(const Sampling& sampling, const std::vector<float>& logits, const Ids& ids = {}) {
  constexpr int draws = 20000;
  std::map<std::int32_t, double> found;
  for (int position = 0; position < draws; ++position) {
    std::vector<float> copy = logits;
    found[choose_token(sampling, copy, ids, {0, position})] += 1.0 / draws;
  }
  return found;
}

void check_close(const std::map<std::int32_t, double>& found, const std::map<std::int32_t, double>& expected) {
  for (const auto& [id, share] : found) CHECK(expected.count(id) == 1);
  for (const auto& [id, share] : expected) {
    INFO("token " << id);
    CHECK(found.count(id) == 1);
    if (found.count(id) == 1) CHECK(found.at(id) == Approx(share).margin(0.015));
  }
}

const std::vector<float> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.25F), std::log(0.05F)};

TEST_CASE("without temperature the most likely token is taken, the first of equals") {
  std::vector<float> some = logits;
  CHECK(choose_token({}, some, {}, {}) == 1);
  std::vector<float> equal{0, 3, 3, 1};
  CHECK(choose_token({}, equal, {}, {}) == 1);
}

TEST_CASE("tokens are drawn by their probabilities under the temperature") {
  check_close(frequencies({.temperature = 1}, logits), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.25}, {4, 0.05}});
  const double sum = 0.01 + 0.16 + 0.04 + 0.0625 + 0.0025;
  check_close(frequencies({.temperature = 0.5}, logits),
              {{0, 0.01 / sum}, {1, 0.16 / sum}, {2, 0.04 / sum}, {3, 0.0625 / sum}, {4, 0.0025 / sum}});
}

TEST_CASE("top-k keeps the k most likely, and what is as likely as the last of them") {
  check_close(frequencies({.temperature = 1, .top_k = 2}, logits), {{1, 0.4 / 0.65}, {3, 0.25 / 0.65}});
  check_close(frequencies({.temperature = 1, .top_k = 2}, {2, 1, 1, 0}),
              {{0, std::exp(1) / (std::exp(1) + 2)}, {1, 1 / (std::exp(1) + 2)}, {2, 1 / (std::exp(1) + 2)}});
  check_close(frequencies({.temperature = 1, .top_k = 9}, logits), {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.25}, {4, 0.05}});
}

TEST_CASE("top-p keeps the fewest most likely tokens that reach the probability, and always one") {
  check_close(frequencies({.temperature = 1, .top_p = 0.6}, logits), {{1, 0.4 / 0.65}, {3, 0.25 / 0.65}});
  check_close(frequencies({.temperature = 1, .top_p = 0.7}, logits), {{1, 0.4 / 0.85}, {3, 0.25 / 0.85}, {2, 0.2 / 0.85}});
  check_close(frequencies({.temperature = 1, .top_p = 1e-9}, logits), {{1, 1}});
}

TEST_CASE("the repetition penalty divides positive logits and multiplies others, once however often a token is there") {
  std::vector<float> some{2, 3, -1};
  CHECK(choose_token({.repetition_penalty = 2}, some, Ids{1, 1, 1}, {}) == 0);
  CHECK(some[1] == 1.5F);
  std::vector<float> negative{-2, -1};
  CHECK(choose_token({.repetition_penalty = 3}, negative, Ids{1}, {}) == 0);
  CHECK(negative[1] == -3);
}

TEST_CASE("random numbers are uniform, and a function of seed, prompt and position") {
  CHECK(random_number(1, {2, 3}) == random_number(1, {2, 3}));
  CHECK(random_number(1, {2, 3}) != random_number(1, {3, 2}));
  CHECK(random_number(1, {2, 3}) != random_number(2, {2, 3}));
  double sum = 0, squares = 0;
  constexpr int count = 10000;
  for (int i = 0; i < count; ++i) {
    const double number = random_number(5, {static_cast<std::size_t>(i / 100), i % 100});
    REQUIRE((number >= 0 && number < 1));
    sum += number, squares += number * number;
  }
  CHECK(sum / count == Approx(0.5).margin(0.02));
  CHECK(squares / count == Approx(1.0 / 3).margin(0.02));
}

TEST_CASE("logits that are NaN are an error") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  for (std::vector<float> bad : {std::vector<float>{1, nan}, std::vector<float>{-infinite, -infinite}}) {
    try {
      choose_token({}, bad, {}, {1, 5});
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::numeric);
      CHECK(std::string(error.what()).find("position 5 of prompt 2") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace pipetrain
