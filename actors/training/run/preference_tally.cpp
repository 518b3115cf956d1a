#include "actors/training/run/preference_tally.hpp"

#include <cassert>

namespace pipetrain {

double PreferenceTally::shown_logp(const SequenceSums& sums, const SequenceFacts& facts) const {
  return formula_.loss == PreferenceLoss::orpo ? -sums.completion / facts.tokens : -sums.completion;
}

void PreferenceTally::add(const std::vector<SequenceSums>& sums, const std::vector<SequenceFacts>& facts) {
  assert(sums.size() == facts.size());
  bool is_first = true;
  for (std::size_t i = 0; i < sums.size(); i += formula_.has_pairs() ? 2 : 1) {
    if (facts[i].tokens == 0) continue;
    ++rows_;
    if (!formula_.has_pairs()) {
      const PreferenceTerms terms = sequence_terms(formula_, sums[i], facts[i]);
      loss_ += terms.loss;
      (facts[i].desirable != 0 ? chosen_ : rejected_).add(terms.chosen_reward, shown_logp(sums[i], facts[i]));
      if (is_first) divergence_ += facts[i].divergence, ++divergences_;
      is_first = false;
      continue;
    }
    const PreferenceTerms terms = pair_terms(formula_, sums[i], facts[i], sums[i + 1], facts[i + 1]);
    loss_ += terms.loss;
    right_ += terms.chosen_reward > terms.rejected_reward ? 1 : 0;
    chosen_.add(terms.chosen_reward, shown_logp(sums[i], facts[i]));
    rejected_.add(terms.rejected_reward, shown_logp(sums[i + 1], facts[i + 1]));
  }
}

PreferenceMetrics PreferenceTally::report() const {
  const auto mean = [](double sum, double count) { return count > 0 ? std::optional(sum / count) : std::nullopt; };
  PreferenceMetrics report;
  report.chosen_reward = mean(chosen_.reward, chosen_.count);
  report.rejected_reward = mean(rejected_.reward, rejected_.count);
  report.chosen_logp = mean(chosen_.logp, chosen_.count);
  report.rejected_logp = mean(rejected_.logp, rejected_.count);
  if (report.chosen_reward && report.rejected_reward) report.margin = *report.chosen_reward - *report.rejected_reward;
  if (formula_.has_pairs()) report.accuracy = mean(right_, rows_);
  report.kl = mean(divergence_, divergences_);
  return report;
}

}  // namespace pipetrain
