#include "records/results.hpp"

#include <cmath>

#include "files/json_value.hpp"

namespace pipetrain {

namespace {

Json result_json(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

}  // namespace

std::string to_json(const RunResults& results) {
  const EvaluationMetrics evaluation = results.evaluation.value_or(EvaluationMetrics{});
  const auto of_evaluation = [&](std::int64_t count) { return results.evaluation ? Json(count) : Json(); };
  const Json members = Json::object({{"model", results.model},
                                     {"steps", results.steps},
                                     {"epochs", result_json(results.epochs)},
                                     {"first_loss", result_json(results.first_loss)},
                                     {"loss", result_json(results.loss)},
                                     {"eval_step", of_evaluation(evaluation.step)},
                                     {"eval_samples", of_evaluation(results.eval_samples)},
                                     {"eval_loss", result_json(evaluation.eval_loss)},
                                     {"perplexity", result_json(evaluation.perplexity)},
                                     {"accuracy", result_json(evaluation.accuracy)},
                                     {"f1", result_json(evaluation.f1)}});
  return members.dump({.indent = 2, .order = JsonOrder::as_added, .replace = true}) + "\n";
}

}  // namespace pipetrain
