// A real run's actions as the timeline that simulations fill too.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "actors/training/trainer.hpp"
#include "core/mesh.hpp"
#include "schedules/timeline.hpp"

namespace pipetrain {

// Keeps the newest steps, up to about a million actions. One row per device: replica, stage, tensor-parallel rank, the last
// fastest; seconds since the first action of the first step. What an action waited for is found from when its inputs were made.
class RunTimeline {
 public:
  explicit RunTimeline(const TrainJob& job);
  void add(const StepReport& report);
  schedules::Timeline timeline() const;

 private:
  using Rows = std::vector<std::vector<schedules::Span>>;

  std::string title_;
  std::vector<std::string> names_;
  schedules::Placement placement_;
  Mesh mesh_;
  int microbatches_;
  std::optional<std::chrono::steady_clock::time_point> origin_;
  std::deque<Rows> steps_;
  std::size_t kept_ = 0;
  std::int64_t last_step_ = 0;
};

}  // namespace pipetrain
