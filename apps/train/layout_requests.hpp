// Process 0's side of `pipetrain relayout`: reads requests between steps, checks the new layout and answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/training/records/profile.hpp"
#include "actors/training/run/trainer.hpp"
#include "apps/options/train_options.hpp"
#include "apps/relayout/relayout_files.hpp"

namespace pipetrain {

class JoinedRun;
struct RetunedLayout;

inline constexpr const char* retune_id = "retune";

// A layout that the run is about to take.
struct LayoutChange {
  RelayoutRequest request;
  TrainOptions options;  // of the run in this layout
  // Those of all changes of the run so far, this one included: where the run was started, they give this layout.
  std::vector<std::string> arguments = {};
  std::string text;  // for people: the layout, and what it is expected to gain
  std::chrono::steady_clock::time_point since;
  // Notes the end of a part of the change, which began where the last one ended, or with `since`. times() returns the seconds
  // that the change has taken so far, with those of its parts.
  void mark(const std::string& phase, std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());
  std::string times() const;
  std::chrono::steady_clock::time_point marked = {};
  std::string phases = {};
};

// Not thread-safe.
class LayoutRequests {
 public:
  // All must outlive this; joined: null in a run of one process. Without a --save folder there are no requests.
  // arguments: those of the changes so far.
  LayoutRequests(const TrainOptions& options, const TrainJob& job, JoinedRun* joined, std::vector<std::string> arguments)
      : options_(options), job_(job), joined_(joined), arguments_(std::move(arguments)) {}

  // Called after every step, for the simulation of another layout.
  void add(StepReport report);
  // Returns a layout that has been asked for and passes all checks, or that --offload auto or --retune has found. Answers and
  // prints those that do not pass. Looks for requests a few times a second, whatever the steps' rate.
  std::optional<LayoutChange> take();
  // Prints what has become of a request, and answers the command that asked; none did where the id is retune_id.
  static void answer(const std::filesystem::path& folder, const RelayoutAnswer& answer);

 private:
  std::optional<LayoutChange> requested();
  std::optional<LayoutChange> answered(const RelayoutRequest& request, std::chrono::steady_clock::time_point since);
  void resize(RelayoutRequest request, int wanted);
  std::optional<LayoutChange> resized();
  std::optional<LayoutChange> replaced();
  std::optional<LayoutChange> retuned();
  std::optional<LayoutChange> changed_to(const RetunedLayout& found) const;
  Profile measured_profile() const;
  LayoutChange check(const RelayoutRequest& request) const;
  std::string expected_gain(const TrainJob& next) const;

  const TrainOptions& options_;
  const TrainJob& job_;
  JoinedRun* joined_;
  const std::vector<std::string> arguments_;
  // A request for another number of processes, until the run has them.
  struct Resizing {
    RelayoutRequest request;  // the rest of it
    int wanted = 0;
    std::chrono::steady_clock::time_point since;
  };
  std::optional<Resizing> resizing_;
  std::deque<StepReport> measured_;  // the latest steps
  std::int64_t steps_ = 0;           // since the last search for a layout
  std::chrono::steady_clock::time_point looked_{};
  bool has_placed_ = false;  // the first steps have shown whether the data's placement is the best one
};

}  // namespace pipetrain
