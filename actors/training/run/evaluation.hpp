// The result of an evaluation: the loss on data that is not trained on.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "records/preference_metrics.hpp"

namespace pipetrain {

struct Evaluation {
  std::int64_t step = 0;               // training steps done before it
  double loss = 0;                     // mean over the counted target tokens, classes, or rows of preferences, of all samples
  std::int64_t samples = 0;            // each is counted once
  std::optional<double> accuracy, f1;  // of a model that classifies: see ClassTally
  std::optional<PreferenceMetrics> preference;  // of a loss of preferences
  double seconds = 0;

  // exp(loss) of a language model.
  std::optional<double> perplexity() const { return accuracy || preference ? std::nullopt : std::optional(std::exp(loss)); }
};

}  // namespace pipetrain
