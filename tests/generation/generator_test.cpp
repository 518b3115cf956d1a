// Greedy text of the golden models is compared with that of transformers (tests/golden/generate.py), on every layout;
// the layout, the cache and other prompts must change nothing.
#include "actors/generation/generator.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "catch.hpp"
#include "generation/golden_text.hpp"

namespace pipetrain {
namespace {

using namespace testing;

TEST_CASE("greedy text is transformers', at every pp and tp") {
  struct Layout {
    int pp, tp;
  };
  for (const auto& one : golden_texts()) {
    const auto prompts = prompts_of(one);
    for (const auto& [pp, tp] : {Layout{1, 1}, Layout{2, 1}, Layout{5, 1}, Layout{1, 2}, Layout{3, 4}}) {
      INFO(one.at("model") << " pp " << pp << " tp " << tp);
      const auto answers = answers_of(golden_job(one, pp, tp), prompts, {.max_new_tokens = one.at("new_tokens")});
      for (std::size_t i = 0; i < prompts.size(); ++i) CHECK(answers[i] == one.at("answers")[i].at("answer").get<Ids>());
    }
  }
}

TEST_CASE("logits are transformers', the same to the bit at every pp, and close at every tp and however a prompt is cut") {
  for (const auto& one : golden_texts()) {
    INFO(one.at("model"));
    const auto& longest = one.at("answers")[1];
    const Ids ids = longest.at("prompt");
    Generator whole(golden_job(one, 1, 1)), stages(golden_job(one, 4, 1)), ranks(golden_job(one, 2, 2));
    const auto logits = logits_after(whole, {{0, ids}});
    const std::vector<double> expected = longest.at("logits");
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(logits[i] == Approx(expected[i]).margin(2e-5));
    CHECK(logits_after(stages, {{0, ids}}) == logits);

    for (const auto& other : {logits_after(ranks, {{0, ids}}), logits_after(whole, singly(ids))}) {
      REQUIRE(other.size() == logits.size());
      for (std::size_t i = 0; i < logits.size(); ++i) CHECK(other[i] == Approx(logits[i]).margin(2e-5));
    }
  }
}

TEST_CASE("logits in bf16 are near transformers', the same to the bit at every pp, and close at every tp and cut of a prompt") {
  for (const auto& one : golden_texts()) {
    INFO(one.at("model"));
    if (golden_job(one, 1, 1).config.experts.scores.corrected) continue;  // these choose in fp32 only
    const auto& longest = one.at("answers")[1];
    const Ids ids = longest.at("prompt");
    const auto job = [&](int pp, int tp) {
      GenerationJob made = golden_job(one, pp, tp);
      made.precision = Precision::bf16();
      return made;
    };
    Generator whole(job(1, 1)), stages(job(4, 1)), ranks(job(1, 2));
    const auto logits = logits_after(whole, {{0, ids}});
    const std::vector<double> expected = longest.at("logits");
    const double largest = std::abs(
        *std::max_element(expected.begin(), expected.end(), [](double a, double b) { return std::abs(a) < std::abs(b); }));
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(logits[i] == Approx(expected[i]).margin(0.03 * largest));
    CHECK(logits_after(stages, {{0, ids}}) == logits);
    for (const auto& other : {logits_after(ranks, {{0, ids}}), logits_after(whole, singly(ids))})
      for (std::size_t i = 0; i < logits.size(); ++i) CHECK(other[i] == Approx(logits[i]).margin(0.03 * largest));
  }
}

TEST_CASE("drawn text depends on the prompt, its number and the seed, not on the layout or how many are under way") {
  const auto& one = golden_texts()[0];
  const auto prompts = prompts_of(one);
  Decoding decoding{.sampling = {.temperature = 1.5, .top_k = 50, .top_p = 0.95, .seed = 7}, .max_new_tokens = 12};
  const auto answers = answers_of(golden_job(one, 1, 1), prompts, decoding);
  for (const auto& [pp, tp, sequences] : {std::tuple(2, 1, 1), std::tuple(3, 2, 3)}) {
    GenerationJob job = golden_job(one, pp, tp);
    job.sequences = sequences;
    CHECK(answers_of(job, prompts, decoding) == answers);
  }
  decoding.sampling.seed = 8;
  CHECK(answers_of(golden_job(one, 1, 1), prompts, decoding) != answers);
  // The same prompt three times gives three texts.
  const auto same = answers_of(golden_job(one, 1, 1), {prompts[0], prompts[0], prompts[0]}, decoding);
  CHECK(same[0] != same[1]);
  CHECK(same[1] != same[2]);
}

TEST_CASE("a text ends at any of its end ids, which is not part of it") {
  const auto& one = golden_texts()[1];
  const auto prompts = prompts_of(one);
  const auto whole = answers_of(golden_job(one, 1, 1), prompts, {.max_new_tokens = 20});
  const std::int32_t end = whole[0][6];
  const auto first = std::find(whole[0].begin(), whole[0].end(), end);
  const auto cut = answers_of(golden_job(one, 2, 1), prompts, {.max_new_tokens = 20, .end_ids = {319, end}});
  CHECK(cut[0] == Ids(whole[0].begin(), first));
}

TEST_CASE("the memory of generation is known in advance, and refused if there is too little") {
  GenerationJob job = golden_job(golden_texts()[0], 2, 2);
  const auto estimate = estimate_generation(job);
  REQUIRE(estimate.devices.size() == 4);
  // 8 layers over 2 stages; 2 sequences of 128 positions; keys and values of half of 4 heads of 8 numbers, 4 bytes each.
  std::size_t cache = 0;
  for (const auto& device : estimate.devices) cache += device.memory.cache;
  CHECK(cache == 8UL * 2 * 2 * 128 * (2 * 2 * 8) * 4);
  CHECK_FALSE(estimate.shortage);
  job.positions = std::int64_t{1} << 40;
  CHECK(estimate_generation(job).shortage.has_value());
}

}  // namespace
}  // namespace pipetrain
