// The results of a finished run, as the results.json that it leaves next to its model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "records/metrics_line.hpp"

namespace pipetrain {

struct RunResults {
  std::string model;  // the run's name for it
  std::int64_t steps = 0;
  double epochs = 0;
  double first_loss = 0;
  std::optional<double> loss;  // of the last step, if known
  std::optional<EvaluationMetrics> evaluation;
  std::int64_t eval_samples = 0;
};

// Returns an object with the keys model, steps, epochs, first_loss, loss, eval_step, eval_samples, eval_loss,
// perplexity, accuracy and f1, which are null if unknown.
std::string to_json(const RunResults& results);

}  // namespace pipetrain
