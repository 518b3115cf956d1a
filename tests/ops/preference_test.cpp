// Operations of preference losses on every backend of this machine.
#include <cmath>

#include "catch.hpp"
#include "core/labels/context_label.hpp"
#include "ops/ops_bench.hpp"
#include "ops/preference.hpp"

namespace pipetrain::testing {
namespace {

const std::vector<PreferenceFormula> tested_formulas = {{PreferenceLoss::dpo, 0.3, false},
                                                        {PreferenceLoss::dpo, 1.7, true},
                                                        {PreferenceLoss::orpo, 0.4, false},
                                                        {PreferenceLoss::kto, 0.2, false}};

// The loss of a microbatch, written out in double precision.
double reference_loss(const PreferenceFormula& formula, const Values& sums, const Values& facts) {
  const auto log_sigmoid = [](double x) { return -std::log1p(std::exp(-x)); };
  const auto logp = [&](std::int64_t row) { return -sums(row, 0); };
  double loss = 0;
  const std::int64_t sequences = sums.shape[0];
  for (std::int64_t row = 0; row < sequences; row += formula.has_pairs() ? 2 : 1) {
    if (formula.loss == PreferenceLoss::kto) {
      const double value = formula.beta * (logp(row) - facts(row, 0) - facts(row, 3));
      loss += 1 - 1 / (1 + std::exp(facts(row, 2) != 0 ? -value : value));
      continue;
    }
    const std::int64_t other = row + 1;
    if (formula.loss == PreferenceLoss::dpo) {
      const double chosen = (logp(row) - facts(row, 0)) / (formula.per_token ? facts(row, 1) : 1);
      const double rejected = (logp(other) - facts(other, 0)) / (formula.per_token ? facts(other, 1) : 1);
      loss -= log_sigmoid(formula.beta * (chosen - rejected));
      continue;
    }
    const double chosen = logp(row) / facts(row, 1), rejected = logp(other) / facts(other, 1);
    const double odds = chosen - rejected - std::log(1 - std::exp(chosen)) + std::log(1 - std::exp(rejected));
    loss += facts(row, 4) * (sums(row, 0) + sums(row, 1)) - formula.beta * log_sigmoid(odds);
  }
  return loss;
}

struct DrawnSequences {
  Values sums{Shape{6, 2}}, facts{Shape{6, preference_facts}};
};

DrawnSequences drawn_sequences(const PreferenceFormula& formula, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform(0.2, 1);
  DrawnSequences drawn;
  for (std::int64_t row = 0; row < 6; ++row) {
    drawn.sums(row, 0) = 8 * uniform(random);
    drawn.sums(row, 1) = 5 * uniform(random);
    drawn.facts(row, 0) = -8 * uniform(random);
    drawn.facts(row, 1) = static_cast<double>(3 + row);
    drawn.facts(row, 2) = row % 2 == 0 ? 1 : 0;
    drawn.facts(row, 3) = 0.7;
    drawn.facts(row, 4) = formula.loss == PreferenceLoss::orpo ? 0.11 : 0;
  }
  return drawn;
}

double slope_by(const PreferenceFormula& formula, DrawnSequences drawn, std::int64_t row, std::int64_t column) {
  constexpr double step = 1e-5;
  drawn.sums(row, column) += step;
  const double above = reference_loss(formula, drawn.sums, drawn.facts);
  drawn.sums(row, column) -= 2 * step;
  return (above - reference_loss(formula, drawn.sums, drawn.facts)) / (2 * step);
}

}  // namespace

TEST_CASE("scales of preference losses are the slopes of the loss by each token's loss", "[ops]") {
  on_every_backend([](Bench& b) {
    constexpr std::int64_t length = 5;
    Values targets(Shape{6 * length});
    for (std::int64_t i = 0; i < 6 * length; ++i)
      targets.data[static_cast<std::size_t>(i)] = i % length == 0 ? -100 : i % length == 1 ? context_label(7) : 7;
    for (const PreferenceFormula& formula : tested_formulas) {
      INFO("loss " << static_cast<int>(formula.loss) << (formula.per_token ? " per token" : ""));
      const DrawnSequences drawn = drawn_sequences(formula, b.random);
      const Tensor scales = b.rank.poisoned({6 * length}, DType::f32);
      b.team.run([&](TestRank& r) {
        r.ops().preference_scales({.formula = formula,
                                   .sums = b.rank.put(drawn.sums, DType::f64),
                                   .facts = b.rank.put(drawn.facts, DType::f64),
                                   .targets = b.rank.put(targets, DType::i32),
                                   .scales = scales});
      });
      const Values found = b.rank.get(scales);
      for (std::int64_t row = 0; row < 6; ++row) {
        INFO("sequence " << row);
        const auto scale = [&](std::int64_t token) { return found.data[static_cast<std::size_t>(row * length + token)]; };
        CHECK(scale(0) == 0);
        CHECK(scale(1) == Approx(slope_by(formula, drawn, row, 1)).epsilon(1e-4).margin(1e-7));
        for (std::int64_t token = 2; token < length; ++token)
          CHECK(scale(token) == Approx(slope_by(formula, drawn, row, 0)).epsilon(1e-4).margin(1e-7));
      }
    }
  });
}

TEST_CASE("sums of sequences add completions and contexts apart", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const std::int64_t length : {1, 7, 700}) {
      const std::int64_t tokens = 3 * length;
      Values losses(Shape{tokens}), targets(Shape{tokens}), expected(Shape{3, 2});
      for (std::int64_t i = 0; i < tokens; ++i) {
        const auto at = static_cast<std::size_t>(i);
        losses.data[at] = 0.25 * static_cast<double>(i % 11);
        targets.data[at] = i % 5 == 0   ? -100
                           : i % 3 == 0 ? context_label(static_cast<std::int32_t>(i))
                                        : static_cast<double>(i);
        if (targets.data[at] >= 0) expected(i / length, 0) += losses.data[at];
        if (targets.data[at] <= first_context_label) expected(i / length, 1) += losses.data[at];
      }
      const Tensor sums = b.rank.poisoned({3, 2}, DType::f64), counted = b.rank.poisoned({tokens}, DType::i32);
      const Tensor ttargets = b.rank.put(targets, DType::i32);
      b.team.run([&](TestRank& r) {
        r.ops().sequence_sums({.token_losses = b.rank.put(losses, DType::f32), .targets = ttargets, .sums = sums});
        r.ops().context_targets({.targets = ttargets, .out = counted});
      });
      const Values found = b.rank.get(sums), ids = b.rank.get(counted);
      for (std::size_t i = 0; i < 6; ++i) CHECK(found.data[i] == Approx(expected.data[i]));
      for (std::int64_t i = 0; i < tokens; ++i)
        CHECK(ids.data[static_cast<std::size_t>(i)] == (i % 5 == 0 ? -100 : static_cast<double>(i)));
    }
  });
}

TEST_CASE("cross-entropy gives each token's loss, and scales each token's gradient", "[ops]") {
  on_every_backend([](Bench& b) {
    constexpr std::int64_t t = 33, vocabulary = 101;
    const Values logits = b.draw({t, vocabulary}, 4), targets = random_ids(t, -1, vocabulary, b.random);
    const Values scales = b.draw_f32({t});
    const Tensor scaled = b.put(logits), plain = b.put(logits), ttargets = b.rank.put(targets, DType::i32);
    const Tensor sums = b.rank.poisoned({t}, DType::f32), losses = b.rank.poisoned({t}, DType::f32);
    const Tensor loss = b.rank.poisoned({1}, DType::f64);
    b.team.run([&](TestRank& r) {
      r.ops().cross_entropy({.tp = r.tp(false),
                             .logits = scaled,
                             .targets = ttargets,
                             .vocabulary = {0, vocabulary},
                             .log_sum_exp = sums,
                             .loss_sum = loss,
                             .token_losses = losses});
      CrossEntropyBackwardArgs args{
          .logits = plain, .targets = ttargets, .vocabulary = {0, vocabulary}, .log_sum_exp = sums, .scale = 0.5F};
      r.ops().cross_entropy_backward(args);
      args.logits = scaled;
      args.token_scales = b.put_f32(scales);
      r.ops().cross_entropy_backward(args);
    });
    const Values each = b.rank.get(losses), one = b.rank.get(plain), other = b.rank.get(scaled);
    double total = 0;
    for (std::int64_t row = 0; row < t; ++row) {
      const auto at = static_cast<std::size_t>(row);
      if (targets.data[at] < 0) CHECK(each.data[at] == 0);
      total += each.data[at];
      for (std::int64_t col = 0; col < vocabulary; ++col)
        CHECK(other(row, col) == Approx(one(row, col) * scales.data[at]).epsilon(b.tolerance * 4).margin(1e-6));
    }
    CHECK(b.rank.get(loss).data[0] == Approx(total).epsilon(1e-5));
  });
}

}  // namespace pipetrain::testing
