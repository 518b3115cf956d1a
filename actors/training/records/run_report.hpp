// Gathers the data of a run's report page, step by step.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/job_settings.hpp"
#include "actors/training/records/profile.hpp"
#include "actors/training/records/run_timeline.hpp"
#include "records/metric_curves.hpp"
#include "records/report_page.hpp"

namespace pipetrain {

// Not thread-safe. Memory is bounded, however long the run is.
class RunReport {
 public:
  // The job must have its plan. model: as the run named it.
  RunReport(const TrainJob& job, const std::string& model, const NamedValues& settings);
  // Adds the steps of earlier starts of the run to the curves, and their resumes and takeovers to the history.
  void add_history(const std::vector<StepMetrics>& steps, const std::vector<EvaluationMetrics>& evaluations);
  // Called after every step.
  void add(const StepMetrics& metrics, const StepReport& report);
  void add(const EvaluationMetrics& metrics);
  // The page refers to this object; the commands and files of its rerun are left to the caller. Its timelines are the second
  // step, the slowest, the newest, and one simulated from the measured costs.
  ReportPage page() const;

 private:
  void mark(ReportPage::Mark::Kind kind, std::int64_t step, const std::string& text);
  schedules::Timeline timeline_of(const StepReport& report, const char* which) const;
  void add_simulated(ReportPage& page) const;

  ReportPage begin_;  // everything but the timelines and the newest step
  MetricCurves curves_;
  RunTimeline no_steps_;
  std::shared_ptr<const schedules::Plan> plan_;
  schedules::Order order_;
  ProfileRecorder profile_;
  std::optional<StepMetrics> newest_metrics_;
  std::optional<StepReport> second_, slowest_, newest_;
};

}  // namespace pipetrain
