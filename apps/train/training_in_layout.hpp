// A training run in one layout: its job, trainer and outputs, which a change of the layout makes anew.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "apps/options/train_options.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/train/layout_requests.hpp"
#include "apps/train/open_job.hpp"

namespace pipetrain {

// The layouts that a run had in this process before the present one.
struct LayoutHistory {
  int relayouts = 0, memberships = 0;
};

// Writes the file that --save-config names, if any.
void save_config(const TrainOptions& options);

class TrainingInLayout {
 public:
  // Opens and builds everything that depends on the layout. All must outlive this; joined: null in a run of one process.
  // Every process of the run makes it at about the same time. Throws Error.
  TrainingInLayout(const TrainOptions& options, JoinedRun* joined, RunLocks& locks, const LayoutHistory& history);
  // In process 0 this ends the run in this layout for the others.
  ~TrainingInLayout();
  TrainingInLayout(const TrainingInLayout&) = delete;
  TrainingInLayout& operator=(const TrainingInLayout&) = delete;

  // Trains. Returns the exit status, or no value where the run goes on in another layout, from a checkpoint in its save
  // folder. Throws Error.
  std::optional<int> run();
  // Returns that layout; only process 0 knows of it more than its options.
  LayoutChange& change() { return *change_; }

  int membership() const;  // the last one
  std::int64_t steps_done() const;

 private:
  struct Parts;
  void prepare(const TrainJob& job);
  bool leads() const;
  std::optional<int> follow();
  std::optional<int> lead();

  const TrainOptions& options_;
  JoinedRun* joined_;
  RunLocks& locks_;
  std::unique_ptr<Parts> parts_;
  std::optional<LayoutChange> change_;
  bool taken_lead_ = false;  // from a process that led before
};

}  // namespace pipetrain
