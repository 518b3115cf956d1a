// The losses of preference tuning, as functions of the log-probabilities of whole completions. Each is written once for the
// host's compiler and the GPU's; the functions are static, because files are compiled for different processors. Sources: dpo
// Rafailov et al. 2023, "Direct Preference Optimization", equation 7; orpo Hong et al. 2024, "ORPO", equations 6 and 7; kto
// Ethayarajh et al. 2024, "KTO", equations 7 and 8, with both weights 1.
#pragma once

#include <cmath>

#include "ops/host_device.hpp"

namespace pipetrain {

enum class PreferenceLoss { dpo, orpo, kto };

struct PreferenceFormula {
  PreferenceLoss loss = PreferenceLoss::dpo;
  double beta = 0.1;
  // dpo: compares log-probabilities per token of the completion. orpo always does, kto never.
  bool per_token = false;

  // True if samples come in pairs, the chosen completion and then the rejected one.
  bool has_pairs() const { return loss != PreferenceLoss::kto; }
  bool has_reference() const { return loss != PreferenceLoss::orpo; }
  bool operator==(const PreferenceFormula&) const = default;
};

// The facts about a sequence that its loss needs besides the model's log-probability. Tensors hold them as rows of
// `preference_facts` f64 values, in this order.
struct SequenceFacts {
  double reference = 0;   // the log-probability of the completion in the reference model; 0 where there is none
  double tokens = 1;      // of the completion
  double desirable = 1;   // kto: 1, or 0 for a completion that is not desirable
  double divergence = 0;  // kto: the divergence of the step's batch from the reference, at least 0
  // orpo: the pairs of the step divided by the tokens of all its chosen sequences, so that the mean over pairs of this times a
  // chosen sequence's negative log-likelihood is the mean over those tokens.
  double likelihood_weight = 0;
};
inline constexpr int preference_facts = 5;

// The negative log-likelihoods of a sequence: of its completion, and of its other tokens where the loss counts them.
struct SequenceSums {
  double completion = 0, context = 0;
};

// The loss of one pair, or of one sequence, and its derivatives by the negative log-likelihood of each sequence's completion;
// by that of the chosen sequence's context it is `likelihood_weight`. The rewards are those that trl reports.
struct PreferenceTerms {
  double loss = 0, by_chosen = 0, by_rejected = 0;
  double chosen_reward = 0, rejected_reward = 0;
};

namespace preference_detail {

PIPETRAIN_HOST_DEVICE static inline double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
// -log(sigmoid(x))
PIPETRAIN_HOST_DEVICE static inline double softplus_of_minus(double x) { return x >= 0 ? log1p(exp(-x)) : log1p(exp(x)) - x; }
// log(1 - exp(x)) for x < 0
PIPETRAIN_HOST_DEVICE static inline double log_one_minus_exp(double x) {
  return x > -0.6931471805599453 ? log(-expm1(x)) : log1p(-exp(x));
}

}  // namespace preference_detail

// For dpo and orpo.
PIPETRAIN_HOST_DEVICE static inline PreferenceTerms pair_terms(const PreferenceFormula& formula, const SequenceSums& chosen,
                                                               const SequenceFacts& chosen_facts, const SequenceSums& rejected,
                                                               const SequenceFacts& rejected_facts) {
  using namespace preference_detail;
  PreferenceTerms terms;
  const double beta = formula.beta;
  if (formula.loss == PreferenceLoss::dpo) {
    const double chosen_ratio = -chosen.completion - chosen_facts.reference;
    const double rejected_ratio = -rejected.completion - rejected_facts.reference;
    const double chosen_weight = formula.per_token ? 1 / chosen_facts.tokens : 1;
    const double rejected_weight = formula.per_token ? 1 / rejected_facts.tokens : 1;
    const double margin = beta * (chosen_ratio * chosen_weight - rejected_ratio * rejected_weight);
    const double slope = beta * sigmoid(-margin);
    terms.loss = softplus_of_minus(margin);
    terms.by_chosen = slope * chosen_weight;
    terms.by_rejected = -slope * rejected_weight;
    terms.chosen_reward = beta * chosen_ratio;
    terms.rejected_reward = beta * rejected_ratio;
    return terms;
  }
  // A mean log-probability of 0 has infinite odds; nothing distinguishes it from one that rounds to 0.
  constexpr double most = -1e-12;
  const double chosen_mean = fmin(-chosen.completion / chosen_facts.tokens, most);
  const double rejected_mean = fmin(-rejected.completion / rejected_facts.tokens, most);
  const double log_odds = chosen_mean - rejected_mean - (log_one_minus_exp(chosen_mean) - log_one_minus_exp(rejected_mean));
  const double slope = beta * sigmoid(-log_odds);
  const double weight = chosen_facts.likelihood_weight;
  terms.loss = weight * (chosen.completion + chosen.context) + beta * softplus_of_minus(log_odds);
  terms.by_chosen = weight - slope / (expm1(chosen_mean) * chosen_facts.tokens);
  terms.by_rejected = slope / (expm1(rejected_mean) * rejected_facts.tokens);
  terms.chosen_reward = beta * chosen_mean;
  terms.rejected_reward = beta * rejected_mean;
  return terms;
}

// For kto; the terms of the sequence are those of a chosen one.
PIPETRAIN_HOST_DEVICE static inline PreferenceTerms sequence_terms(const PreferenceFormula& formula, const SequenceSums& sums,
                                                                   const SequenceFacts& facts) {
  using namespace preference_detail;
  PreferenceTerms terms;
  const double ratio = -sums.completion - facts.reference;
  const double sign = facts.desirable != 0 ? 1 : -1;
  const double value = sigmoid(formula.beta * sign * (ratio - facts.divergence));
  terms.loss = 1 - value;
  terms.by_chosen = formula.beta * sign * value * (1 - value);
  terms.chosen_reward = formula.beta * ratio;
  return terms;
}

}  // namespace pipetrain
