// A real run's actions as the timeline that simulations fill too.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "core/mesh.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// What a run of this job is called in its records: "1f1b, pp 4, tp 1, dp 1, 16 microbatches".
std::string run_title(const TrainJob& job);
// A rank in the records of a run: "replica 0 stage 1 rank 2", without what the mesh has one of.
std::string rank_name(const MeshCoordinate& rank, const MeshShape& shape);

// Keeps the newest steps, up to about a million actions. One row per device: replica, stage, tensor-parallel rank, the last
// fastest; seconds since the first action of the first step. What an action waited for is found from when its inputs were made.
class RunTimeline {
 public:
  // The job has its plan.
  explicit RunTimeline(const TrainJob& job);
  // mesh: of the devices that each step tells of, in this order.
  RunTimeline(std::string title, schedules::Placement placement, int microbatches, const Mesh& mesh, int slices = 1);
  void add(const StepReport& report) { add(report.step, report.devices); }
  void add(std::int64_t step, const std::vector<DeviceTrace>& devices);
  schedules::Timeline timeline() const;

 private:
  using Rows = std::vector<std::vector<schedules::Span>>;
  struct Step {
    Rows rows, moves;
  };
  Rows joined(Rows Step::*part) const;

  std::string title_;
  std::vector<std::string> names_;
  schedules::Placement placement_;
  Mesh mesh_;
  int microbatches_;  // with slices, their pieces
  int slices_;        // of each microbatch
  std::optional<std::chrono::steady_clock::time_point> origin_;
  std::deque<Step> steps_;
  std::size_t kept_ = 0;
  std::int64_t last_step_ = 0;
};

}  // namespace pipetrain
