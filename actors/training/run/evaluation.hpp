// The loss on data that is not trained on.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

namespace pipetrain {

struct Evaluation {
  std::int64_t step = 0;               // of training that had been done
  double loss = 0;                     // mean over the counted target tokens, or classes, of all samples
  std::int64_t samples = 0;            // each was counted once
  std::optional<double> accuracy, f1;  // of a model that classifies: see ClassTally
  double seconds = 0;

  // Of a language model: e to the loss.
  std::optional<double> perplexity() const { return accuracy ? std::nullopt : std::optional(std::exp(loss)); }
};

}  // namespace pipetrain
