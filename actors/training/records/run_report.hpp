// Gathers the data of a run's report page, step by step.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/job_settings.hpp"
#include "actors/training/records/profile.hpp"
#include "actors/training/records/run_timeline.hpp"
#include "records/report_page.hpp"

namespace pipetrain {

// Not thread-safe. Memory is bounded, however long the run is.
class RunReport {
 public:
  // The job must have its plan. model: as the run named it.
  RunReport(const TrainJob& job, const std::string& model, const NamedValues& settings);
  // Adds the steps of earlier starts of the run to the curves.
  void add_history(const std::vector<StepMetrics>& steps, const std::vector<EvaluationMetrics>& evaluations);
  // Called after every step.
  void add(const StepMetrics& metrics, const StepReport& report);
  void add(const EvaluationMetrics& metrics);
  // The page refers to this object. Its timelines are the second step, the slowest, the newest, and one simulated from
  // the measured costs.
  ReportPage page() const;

 private:
  template <class Metrics>
  struct Curve {
    const char *title, *unit;
    double scale;
    std::function<std::optional<double>(const Metrics&)> read;
    StepSeries series;
  };

  template <class Metrics>
  static void add_to(std::vector<Curve<Metrics>>& curves, const Metrics& metrics) {
    for (Curve<Metrics>& curve : curves)
      if (const auto value = curve.read(metrics)) curve.series.add(metrics.step, *value);
  }
  schedules::Timeline timeline_of(const StepReport& report, const char* which) const;
  void add_simulated(ReportPage& page) const;

  ReportPage begin_;  // the constant part of the page
  std::vector<Curve<StepMetrics>> curves_;
  std::vector<Curve<EvaluationMetrics>> evaluation_curves_;
  RunTimeline no_steps_;
  std::shared_ptr<const schedules::Plan> plan_;
  schedules::Order order_;
  ProfileRecorder profile_;
  std::optional<StepMetrics> newest_metrics_;
  std::optional<StepReport> second_, slowest_, newest_;
};

}  // namespace pipetrain
