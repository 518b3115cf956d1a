// What the report page of a run shows, gathered step by step.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job_settings.hpp"
#include "actors/training/profile.hpp"
#include "actors/training/run_timeline.hpp"
#include "records/report_page.hpp"

namespace pipetrain {

// Not thread-safe. Memory is bounded, however long the run.
class RunReport {
 public:
  // model: as the run named it.
  RunReport(const TrainJob& job, const std::string& model, const NamedValues& settings);
  // Steps that earlier starts of the run made: for the curves.
  void add_history(const std::vector<StepMetrics>& steps);
  // After every step.
  void add(const StepMetrics& metrics, const StepReport& report);
  // Refers to this. Its timelines: the second step, the slowest, the newest, and one simulated from the costs that were
  // measured.
  ReportPage page() const;

 private:
  struct Curve {
    const char *title, *unit;
    double scale;
    std::optional<double> (*read)(const StepMetrics&);
    StepSeries series;
  };

  void add_to_curves(const StepMetrics& metrics);
  schedules::Timeline timeline_of(const StepReport& report, const char* which) const;
  void add_simulated(ReportPage& page) const;

  ReportPage begin_;  // what does not change
  std::vector<Curve> curves_;
  RunTimeline no_steps_;
  schedules::Plan plan_;
  schedules::Order order_;
  ProfileRecorder profile_;
  std::optional<StepMetrics> newest_metrics_;
  std::optional<StepReport> second_, slowest_, newest_;
};

}  // namespace pipetrain
