#include "records/results.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace pipetrain {

namespace {

using nlohmann::ordered_json;

ordered_json result_json(std::optional<double> value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

}  // namespace

std::string to_json(const RunResults& results) {
  const EvaluationMetrics evaluation = results.evaluation.value_or(EvaluationMetrics{});
  const auto of_evaluation = [&](std::int64_t count) { return results.evaluation ? ordered_json(count) : ordered_json(); };
  const ordered_json members = {{"model", results.model},
                                {"steps", results.steps},
                                {"epochs", result_json(results.epochs)},
                                {"first_loss", result_json(results.first_loss)},
                                {"loss", result_json(results.loss)},
                                {"eval_step", of_evaluation(evaluation.step)},
                                {"eval_samples", of_evaluation(results.eval_samples)},
                                {"eval_loss", result_json(evaluation.eval_loss)},
                                {"perplexity", result_json(evaluation.perplexity)},
                                {"accuracy", result_json(evaluation.accuracy)},
                                {"f1", result_json(evaluation.f1)}};
  return members.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace pipetrain
