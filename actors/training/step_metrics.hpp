// The metrics of a step, and the JSON line that programs outside the project read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/training/trainer.hpp"

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
};

// Rates are of model FLOPs: model_flops_per_token(). memory: Trainer::memory().
StepMetrics step_metrics(const StepReport& report, const std::vector<DeviceMemory>& memory, double flops_per_token,
                         double elapsed);

// One line without its end. Loss, grad_norm and lr have 17 significant digits, which read back as the same double.
std::string to_json_line(const StepMetrics& metrics);
// The step of such a line, or of its beginning; nothing where the line is not one of ours.
std::optional<std::int64_t> step_of_json_line(std::string_view line);

}  // namespace pipetrain
