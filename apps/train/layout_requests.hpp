// Process 0's side of `pipetrain relayout`: reads requests between steps, checks the new layout and answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/run/trainer.hpp"
#include "apps/options/train_options.hpp"
#include "apps/relayout/relayout_files.hpp"

namespace pipetrain {

class JoinedRun;

// A layout that the run is about to take.
struct LayoutChange {
  RelayoutRequest request;
  TrainOptions options;  // of the run in this layout
  std::string text;      // for people: the layout, and what it is expected to gain
  std::chrono::steady_clock::time_point since;
};

// Not thread-safe.
class LayoutRequests {
 public:
  // All must outlive this; joined: null in a run of one process. Without a --save folder there are no requests.
  LayoutRequests(const TrainOptions& options, const TrainJob& job, const JoinedRun* joined)
      : options_(options), job_(job), joined_(joined) {}

  // Called after every step, for the simulation of another layout.
  void add(StepReport report);
  // Returns a layout that has been asked for and passes all checks. Answers and prints those that do not. Looks for
  // requests a few times a second, whatever the steps' rate.
  std::optional<LayoutChange> take();
  // Tells the command that asked what has become of its request.
  void answer(const RelayoutRequest& request, bool changed, const std::string& text) const;

 private:
  LayoutChange check(const RelayoutRequest& request) const;
  std::string expected_gain(const TrainJob& next) const;

  const TrainOptions& options_;
  const TrainJob& job_;
  const JoinedRun* joined_;
  std::deque<StepReport> measured_;  // the latest steps
  std::chrono::steady_clock::time_point looked_{};
};

}  // namespace pipetrain
