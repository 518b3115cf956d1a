// Makes a timeline, as simulations do, of a real run's actions.
#pragma once

#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "core/mesh.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// Returns the title of a run of this job in its records: "1f1b, pp 4, tp 1, dp 1, 16 microbatches".
std::string run_title(const TrainJob& job);
// Returns the name of a rank in the records of a run, "replica 0 stage 1 rank 2", without the axes of size one.
std::string rank_name(const MeshCoordinate& rank, const MeshShape& shape);

// Keeps the newest steps, up to about a million actions. One row per device, ordered by replica, stage, tensor-parallel
// rank, the last fastest; seconds since the first action of the first step. An action's wait ends when the last of its
// inputs was made.
class RunTimeline {
 public:
  // The job must have its plan.
  explicit RunTimeline(const TrainJob& job);
  // mesh: of the devices in the steps' traces, in this order.
  RunTimeline(std::string title, schedules::Placement placement, int microbatches, const Mesh& mesh, int slices = 1);
  void add(const StepReport& report) { add(report.step, report.devices); }
  void add(std::int64_t step, const std::vector<DeviceTrace>& devices);
  // Adds an evaluation that ended at this time, after the steps so far.
  void add(const Evaluation& evaluation, std::chrono::steady_clock::time_point end);
  // Evaluations before the first step or after the last one are left out.
  schedules::Timeline timeline() const;

 private:
  using Rows = std::vector<std::vector<schedules::Span>>;
  struct Step {
    schedules::Period period;
    Rows rows, moves;
  };
  double seconds(std::chrono::steady_clock::time_point time) const;
  Rows joined(Rows Step::*part) const;
  void add_periods(schedules::Timeline& timeline) const;

  std::string title_;
  std::vector<std::string> names_;
  schedules::Placement placement_;
  Mesh mesh_;
  int microbatches_;  // with slices, the number of slices
  int slices_;        // of each microbatch
  std::optional<std::chrono::steady_clock::time_point> origin_;
  std::deque<Step> steps_;
  std::vector<schedules::Period> evaluations_;
  std::size_t kept_ = 0;
};

}  // namespace pipetrain
