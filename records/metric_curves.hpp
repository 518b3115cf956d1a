// The curves of a run's metrics that report pages draw.
#pragma once

#include <vector>

#include "records/metrics_line.hpp"
#include "records/report_chart.hpp"
#include "records/step_series.hpp"

namespace pipetrain {

// Not thread-safe. Memory is bounded, however long the run is.
class MetricCurves {
 public:
  MetricCurves();
  // Steps must ascend, and so must the steps of evaluations.
  void add(const StepMetrics& metrics);
  void add(const EvaluationMetrics& metrics);

 private:
  friend std::vector<ReportChart> charts_of(const std::vector<const MetricCurves*>& runs);
  std::vector<StepSeries> of_steps_, of_evaluations_;
};

// Returns one chart for each value that any of the runs has, with a line for each run that has it. The charts refer to the
// curves.
std::vector<ReportChart> charts_of(const std::vector<const MetricCurves*>& runs);

}  // namespace pipetrain
