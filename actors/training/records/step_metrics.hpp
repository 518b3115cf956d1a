// Computes the metrics of a Trainer's step.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "records/metrics_line.hpp"

namespace pipetrain {

struct ModelFigures {
  double flops_per_token = 0;  // model_flops_per_token(), by which rates count
  std::int64_t trainable_parameters = 0;
};
// memory: Trainer::memory(). elapsed: seconds since the process started.
StepMetrics step_metrics(const StepReport& report, const std::vector<DeviceMemory>& memory, const ModelFigures& model,
                         double elapsed);

EvaluationMetrics evaluation_metrics(const Evaluation& evaluation);

}  // namespace pipetrain
