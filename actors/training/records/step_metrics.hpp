// Computes the metrics of a Trainer's step.
#pragma once

#include <vector>

#include "actors/training/run/trainer.hpp"
#include "records/metrics_line.hpp"

namespace pipetrain {

// Rates count model FLOPs: model_flops_per_token(). memory: Trainer::memory().
StepMetrics step_metrics(const StepReport& report, const std::vector<DeviceMemory>& memory, double flops_per_token,
                         double elapsed);

EvaluationMetrics evaluation_metrics(const Evaluation& evaluation);

}  // namespace pipetrain
