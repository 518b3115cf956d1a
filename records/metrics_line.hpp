// The metrics of a step, as the JSON line that other programs read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "records/preference_metrics.hpp"

namespace pipetrain {

// An unknown value is null in the line; so is a number that is not finite.
struct StepMetrics {
  std::int64_t step = 0;  // counts from 1
  std::optional<double> loss, grad_norm, lr;
  std::int64_t tokens = 0;  // trained on in this step
  double seconds = 0;       // duration of this step
  double elapsed = 0;       // seconds since the process started
  std::optional<double> tokens_per_second, tokens_per_second_per_device, tflops_per_device;
  std::optional<double> mfu, bubble;                      // 0 to 1
  std::vector<std::optional<std::int64_t>> memory_bytes;  // one for each device; empty: null
  std::optional<double> loss_scale;
  bool skipped = false;
  std::optional<std::int64_t> applied_steps;  // optimizer steps so far; lines of earlier versions lack them
  // Known for models with routed experts: the balancing loss and the z-loss, each the mean over the sequences of the global
  // batch and without its coefficient; the largest load of an expert divided by the mean, and the standard deviation of loads
  // divided by it, of the layer where they are largest.
  std::optional<double> aux_loss, z_loss, expert_load_max, expert_load_cv;
  std::optional<std::int64_t> expert_dropped;  // choices that found their expert full, in all layers
  std::optional<std::int64_t> trainable_parameters;
  // The number of the membership that ran the step, counted from 1, and of the takeovers before it.
  std::optional<std::int64_t> membership, takeovers;
  std::optional<std::int64_t> total_steps;  // of the whole run; unknown if its end depends on the loss
  PreferenceMetrics preference;             // of a loss of preferences
  std::optional<double> input_wait;         // seconds in which a first stage may have waited for data; no key if unknown
  std::vector<std::optional<double>>
      stage_bubble;  // one for each stage, replica-major, 0 to 1; bubble is their mean; no key if empty
};

// Returns the share of the step spent waiting for data, 0 to 1.
std::optional<double> input_wait_share(const StepMetrics& metrics);

// The metrics of an evaluation on data that is not trained on. Accuracy and F1 are for classes, 0 to 1.
struct EvaluationMetrics {
  std::int64_t step = 0;  // training steps done before it
  std::optional<double> eval_loss, perplexity, accuracy, f1;
  PreferenceMetrics preference;  // of a loss of preferences
};

// Returns one line without its end. Losses, grad_norm and lr have 17 significant digits, which read back as the same double.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const EvaluationMetrics& metrics);  // eval_loss has 17 digits too
// Returns the step of such a line, or of its beginning; nothing if the line has another form.
std::optional<std::int64_t> step_of_json_line(std::string_view line);
// Parses the line of a step; returns nothing for a line of another kind, such as an evaluation's. `place` begins the
// error: "run.jsonl:3". Throws Error(input).
std::optional<StepMetrics> parse_metrics_line(std::string_view line, const std::string& place);
// Parses the line of an evaluation; returns nothing for another line. Throws Error(input).
std::optional<EvaluationMetrics> parse_evaluation_line(std::string_view line, const std::string& place);

}  // namespace pipetrain
