#include "actors/training/step_metrics.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace pipetrain {

namespace {

std::string exact(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{:.17g}", *value) : "null";
}

std::string shortest(std::optional<double> value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "null";
}

std::string list(const std::vector<std::optional<std::int64_t>>& values) {
  if (values.empty()) return "null";
  std::string text = "[";
  for (const auto& value : values)
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", value ? fmt::format("{}", *value) : "null");
  return text + "]";
}

}  // namespace

StepMetrics step_metrics(const StepReport& report, const std::vector<DeviceMemory>& memory, double flops_per_token,
                         double elapsed) {
  StepMetrics metrics;
  metrics.step = report.step;
  metrics.loss = report.loss;
  metrics.grad_norm = report.grad_norm;
  metrics.lr = report.learning_rate;
  metrics.tokens = report.tokens;
  metrics.seconds = report.seconds;
  metrics.elapsed = elapsed;
  const double rate = static_cast<double>(report.tokens) / report.seconds;
  const auto devices = static_cast<double>(memory.size());
  metrics.tokens_per_second = rate;
  metrics.tokens_per_second_per_device = rate / devices;
  metrics.tflops_per_device = rate * flops_per_token / devices / 1e12;
  metrics.bubble = report.bubble;
  metrics.skipped = report.skipped;
  for (const auto& device : memory) metrics.memory_bytes.push_back(static_cast<std::int64_t>(device.use.total()));
  return metrics;
}

std::string to_json_line(const StepMetrics& metrics) {
  return fmt::format(
      R"({{"step":{},"loss":{},"grad_norm":{},"lr":{},"tokens":{},"seconds":{},"elapsed":{},"tokens_per_second":{},)"
      R"("tokens_per_second_per_device":{},"tflops_per_device":{},"mfu":{},"bubble":{},"memory_bytes":{},"loss_scale":{},"skipped":{}}})",
      metrics.step, exact(metrics.loss), exact(metrics.grad_norm), exact(metrics.lr), metrics.tokens, shortest(metrics.seconds),
      shortest(metrics.elapsed), shortest(metrics.tokens_per_second), shortest(metrics.tokens_per_second_per_device),
      shortest(metrics.tflops_per_device), shortest(metrics.mfu), shortest(metrics.bubble), list(metrics.memory_bytes),
      shortest(metrics.loss_scale), metrics.skipped);
}

std::optional<std::int64_t> step_of_json_line(std::string_view line) {
  constexpr std::string_view begin = R"({"step":)";
  std::int64_t step = 0;
  if (!line.starts_with(begin)) return {};
  const auto [end, error] = std::from_chars(line.data() + begin.size(), line.data() + line.size(), step);
  return error == std::errc() ? std::optional(step) : std::nullopt;
}

}  // namespace pipetrain
