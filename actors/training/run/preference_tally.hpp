// Computes the loss and the metrics of preferences from the log-probabilities of a step's sequences.
#pragma once

#include <vector>

#include "ops/preference.hpp"
#include "records/preference_metrics.hpp"

namespace pipetrain {

class PreferenceTally {
 public:
  explicit PreferenceTally(const PreferenceFormula& formula) : formula_(formula) {}

  // Adds sequences in the order of the global batch. Those without tokens are padding. Both have the same size.
  void add(const std::vector<SequenceSums>& sums, const std::vector<SequenceFacts>& facts);

  double rows() const { return rows_; }  // pairs, or completions
  double mean_loss() const { return loss_ / rows_; }
  PreferenceMetrics report() const;

 private:
  struct Side {
    double count = 0, reward = 0, logp = 0;
    void add(double own_reward, double own_logp) { ++count, reward += own_reward, logp += own_logp; }
  };
  double shown_logp(const SequenceSums& sums, const SequenceFacts& facts) const;

  PreferenceFormula formula_;
  double rows_ = 0, loss_ = 0, right_ = 0;
  Side chosen_, rejected_;
  double divergence_ = 0, divergences_ = 0;  // the sum, and the number of its terms
};

}  // namespace pipetrain
