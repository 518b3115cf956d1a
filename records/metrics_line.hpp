// The metrics of a step, as the JSON line that programs outside the project read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// What is not known is null in the line; so is a number that is not finite.
struct StepMetrics {
  std::int64_t step = 0;  // from 1
  std::optional<double> loss, grad_norm, lr;
  std::int64_t tokens = 0;  // trained on in this step
  double seconds = 0;       // that this step took
  double elapsed = 0;       // seconds since the process started
  std::optional<double> tokens_per_second, tokens_per_second_per_device, tflops_per_device;
  std::optional<double> mfu, bubble;                      // 0 to 1
  std::vector<std::optional<std::int64_t>> memory_bytes;  // per device; empty: null
  std::optional<double> loss_scale;
  bool skipped = false;
  std::optional<std::int64_t> applied_steps;  // optimizer steps so far; lines of earlier versions lack them
  std::optional<double> input_wait;           // seconds that a first stage may have waited for data; no key where unknown
  std::vector<std::optional<double>>
      stage_bubble;  // per stage, replica-major, 0 to 1: their mean is bubble; no key where empty
};

// The share of the step in which data was waited for, 0 to 1.
std::optional<double> input_wait_share(const StepMetrics& metrics);

// Of an evaluation: what the loss is on data that is not trained on. Accuracy and F1 are of classes, 0 to 1.
struct EvaluationMetrics {
  std::int64_t step = 0;  // of training that had been done
  std::optional<double> eval_loss, perplexity, accuracy, f1;
};

// One line without its end. Loss, grad_norm and lr have 17 significant digits, which read back as the same double.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const EvaluationMetrics& metrics);  // eval_loss likewise
// The step of such a line, or of its beginning; nothing where the line is not one of ours.
std::optional<std::int64_t> step_of_json_line(std::string_view line);
// A line of a step; nothing for a line of another kind, such as an evaluation's. `place` begins the error: "run.jsonl:3".
// Throws Error(input).
std::optional<StepMetrics> parse_metrics_line(std::string_view line, const std::string& place);
// A line of an evaluation, else nothing. Throws Error(input).
std::optional<EvaluationMetrics> parse_evaluation_line(std::string_view line, const std::string& place);

}  // namespace pipetrain
