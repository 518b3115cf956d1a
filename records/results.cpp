#include "records/results.hpp"

#include <cmath>

#include "files/json_value.hpp"

namespace pipetrain {

namespace {

Json json_of(std::optional<double> value) { return value && std::isfinite(*value) ? Json(*value) : Json(); }

}  // namespace

std::string to_json(const RunResults& results) {
  const EvaluationMetrics evaluation = results.evaluation.value_or(EvaluationMetrics{});
  const auto of_evaluation = [&](std::int64_t count) { return results.evaluation ? Json(count) : Json(); };
  const Json members = Json::object({{"model", results.model},
                                     {"steps", results.steps},
                                     {"epochs", json_of(results.epochs)},
                                     {"first_loss", json_of(results.first_loss)},
                                     {"loss", json_of(results.loss)},
                                     {"eval_step", of_evaluation(evaluation.step)},
                                     {"eval_samples", of_evaluation(results.eval_samples)},
                                     {"eval_loss", json_of(evaluation.eval_loss)},
                                     {"perplexity", json_of(evaluation.perplexity)},
                                     {"accuracy", json_of(evaluation.accuracy)},
                                     {"f1", json_of(evaluation.f1)}});
  return members.dump({.indent = 2, .order = JsonOrder::as_added, .replace = true}) + "\n";
}

}  // namespace pipetrain
