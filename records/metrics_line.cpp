#include "records/metrics_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.hpp"
#include "files/json.hpp"

namespace pipetrain {

namespace {

std::string exact(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.17g}", *value) : "null";
}

std::string shortest(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "null";
}

// Returns the members of all keys, each with a comma before it.
std::string preference_members(const PreferenceMetrics& metrics) {
  std::string text;
  for (const PreferenceField& field : preference_fields)
    text += fmt::format(R"(,"{}":{})", field.key, exact(metrics.*field.value));
  return text;
}

std::string whole_text(const std::optional<std::int64_t>& value) { return value ? fmt::format("{}", *value) : "null"; }

// Writes numbers that may be missing.
template <class Values>
std::string list(const Values& values) {
  if (values.empty()) return "null";
  std::string text = "[";
  for (const auto& value : values)
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", value ? fmt::format("{}", *value) : "null");
  return text + "]";
}

[[noreturn]] void fail(const std::string& place, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}; give a file that a run wrote as its metrics", place, what));
}

std::optional<double> number_of(const Json& value, const std::string& place, const char* name) {
  if (value.is_null()) return {};
  if (!value.is_number()) fail(place, fmt::format("{} is not a number", name));
  return value.as_double();
}

// Returns nothing if the number is null or absent.
std::optional<double> number(const Json& members, const std::string& place, const char* name) {
  const Json* const found = members.find(name);
  return !found ? std::nullopt : number_of(*found, place, name);
}

std::int64_t whole(const Json& value, const std::string& place, const char* name) {
  const auto number = value.whole();
  if (!number) fail(place, fmt::format("{} is not a whole number", name));
  return *number;
}

std::vector<std::optional<double>> numbers(const Json& members, const std::string& place, const char* name) {
  std::vector<std::optional<double>> values;
  const Json* const found = members.find(name);
  if (!found || found->is_null()) return values;
  if (!found->is_array()) fail(place, fmt::format("{} is not a list", name));
  for (const Json& value : *found) values.push_back(number_of(value, place, name));
  return values;
}

PreferenceMetrics read_preference(const Json& members, const std::string& place) {
  PreferenceMetrics metrics;
  for (const PreferenceField& field : preference_fields) metrics.*field.value = number(members, place, field.key);
  return metrics;
}

Json parse_members(std::string_view line, const std::string& place) {
  constexpr JsonLimits limits{.depth = 4, .values = 100'000};
  Json members = parse_json(line, {place, false}, limits);
  if (!members.is_object() || !members.contains("step")) fail(place, "is not a line of metrics");
  return members;
}

std::int64_t metrics_step(const Json& members, const std::string& place) {
  const std::int64_t step = whole(members.at("step"), place, "step");
  if (step < 1) fail(place, "step is below 1");
  return step;
}

}  // namespace

std::optional<double> input_wait_share(const StepMetrics& metrics) {
  if (!metrics.input_wait || metrics.seconds <= 0) return {};
  return std::min(1.0, *metrics.input_wait / metrics.seconds);
}

std::string to_json_line(const StepMetrics& metrics) {
  std::string line = fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"seconds":{},"elapsed":{},"tokens_per_second":{},)"
      R"("tokens_per_second_per_device":{},"tflops_per_device":{},"mfu":{},"bubble":{},"memory_bytes":{},"loss_scale":{},"skipped":{},"applied_steps":{},)"
      R"("aux_loss":{},"z_loss":{},"expert_load_max":{},"expert_load_cv":{},"expert_dropped":{},"trainable_parameters":{},"membership":{},"takeovers":{},"total_steps":{})",
      metrics.step, exact(metrics.loss), exact(metrics.grad_norm), exact(metrics.lr), metrics.tokens, shortest(metrics.seconds),
      shortest(metrics.elapsed), shortest(metrics.tokens_per_second), shortest(metrics.tokens_per_second_per_device),
      shortest(metrics.tflops_per_device), shortest(metrics.mfu), shortest(metrics.bubble), list(metrics.memory_bytes),
      shortest(metrics.loss_scale), metrics.skipped, whole_text(metrics.applied_steps), exact(metrics.aux_loss),
      exact(metrics.z_loss), shortest(metrics.expert_load_max), shortest(metrics.expert_load_cv),
      whole_text(metrics.expert_dropped), whole_text(metrics.trainable_parameters), whole_text(metrics.membership),
      whole_text(metrics.takeovers), whole_text(metrics.total_steps));
  line += preference_members(metrics.preference);
  if (metrics.input_wait) line += fmt::format(R"(,"input_wait":{})", shortest(metrics.input_wait));
  if (!metrics.stage_bubble.empty()) line += fmt::format(R"(,"stage_bubble":{})", list(metrics.stage_bubble));
  return line + "}";
}

std::string to_json_line(const EvaluationMetrics& metrics) {
  return fmt::format(R"({{"step":{},"eval_loss":{},"perplexity":{},"accuracy":{},"f1":{}{}}})", metrics.step,
                     exact(metrics.eval_loss), shortest(metrics.perplexity), shortest(metrics.accuracy), shortest(metrics.f1),
                     preference_members(metrics.preference));
}

std::optional<std::int64_t> step_of_json_line(std::string_view line) {
  constexpr std::string_view begin = R"({"step":)";
  std::int64_t step = 0;
  if (!line.starts_with(begin)) return {};
  const auto [end, error] = std::from_chars(line.data() + begin.size(), line.data() + line.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

std::optional<EvaluationMetrics> parse_evaluation_line(std::string_view line, const std::string& place) {
  const Json members = parse_members(line, place);
  if (!members.contains("eval_loss")) return {};
  EvaluationMetrics metrics;
  metrics.step = metrics_step(members, place);
  metrics.eval_loss = number(members, place, "eval_loss");
  metrics.perplexity = number(members, place, "perplexity");
  metrics.accuracy = number(members, place, "accuracy");
  metrics.f1 = number(members, place, "f1");
  metrics.preference = read_preference(members, place);
  return metrics;
}

std::optional<StepMetrics> parse_metrics_line(std::string_view line, const std::string& place) {
  const Json members = parse_members(line, place);
  StepMetrics metrics;
  metrics.step = metrics_step(members, place);
  if (!members.contains("loss")) return {};  // the line of an evaluation
  const auto read = [&](const char* name) { return number(members, place, name); };
  metrics.loss = read("loss");
  metrics.grad_norm = read("grad_norm");
  metrics.lr = read("lr");
  if (members.contains("tokens")) metrics.tokens = whole(members.at("tokens"), place, "tokens");
  metrics.seconds = read("seconds").value_or(0);
  metrics.elapsed = read("elapsed").value_or(0);
  metrics.tokens_per_second = read("tokens_per_second");
  metrics.tokens_per_second_per_device = read("tokens_per_second_per_device");
  metrics.tflops_per_device = read("tflops_per_device");
  metrics.mfu = read("mfu");
  metrics.bubble = read("bubble");
  for (const auto& bytes : numbers(members, place, "memory_bytes"))
    metrics.memory_bytes.push_back(bytes ? std::optional(static_cast<std::int64_t>(std::clamp(*bytes, 0.0, 9e18)))
                                         : std::nullopt);
  metrics.loss_scale = read("loss_scale");
  metrics.skipped = members.contains("skipped") && members.at("skipped") == true;
  const auto read_whole = [&](const char* name) {
    const Json* const found = members.find(name);
    return found && !found->is_null() ? std::optional(whole(*found, place, name)) : std::nullopt;
  };
  metrics.applied_steps = read_whole("applied_steps");
  metrics.aux_loss = read("aux_loss");
  metrics.z_loss = read("z_loss");
  metrics.expert_load_max = read("expert_load_max");
  metrics.expert_load_cv = read("expert_load_cv");
  metrics.expert_dropped = read_whole("expert_dropped");
  metrics.trainable_parameters = read_whole("trainable_parameters");
  metrics.membership = read_whole("membership");
  metrics.takeovers = read_whole("takeovers");
  metrics.total_steps = read_whole("total_steps");
  metrics.preference = read_preference(members, place);
  metrics.input_wait = read("input_wait");
  metrics.stage_bubble = numbers(members, place, "stage_bubble");
  return metrics;
}

}  // namespace pipetrain
