// A training run in one layout: its job, trainer and outputs, which a change of the layout makes anew.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/options/train_options.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/train/layout_requests.hpp"
#include "apps/train/open_job.hpp"
#include "apps/train/report_file.hpp"
#include "apps/train/served_report.hpp"

namespace pipetrain {

// The layouts that a run had in this process before the present one.
struct LayoutHistory {
  int relayouts = 0;
  std::vector<std::string> arguments = {};  // of relayout, from all of them
  bool begun = false;                       // the run has trained in this process
};

// The text with which process 0 announces a layout to the others, and the layout of that text. options: of a layout before.
std::string announced_text(const LayoutChange& change);
LayoutChange announced_change(const std::string& text, const TrainOptions& options, const RunPlace& place);

// Makes this process, which has followed so far, the one that saves and reports: files that the process before it has begun
// are continued or removed. Returns the notes for the user.
std::vector<std::string> take_lead(const TrainOptions& options, RunLocks& locks);
// True when this process could lock the save folder, and so the process that saved there is gone: the run then belongs to the
// half of its processes that is left here. The lock is kept.
bool takes_save_folder(const TrainOptions& options, RunLocks& locks);

// Writes the file that --save-config names, if any.
void save_config(const TrainOptions& options);

class TrainingInLayout {
 public:
  // Opens and builds everything that depends on the layout. All must outlive this; joined: null in a run of one process.
  // before: what it takes over from the layout before. Every process of the run makes it at about the same time. Throws Error.
  TrainingInLayout(const TrainOptions& options, JoinedRun* joined, RunLocks& locks, const LayoutHistory& history,
                   ServedReport& served, const RunBefore& before);
  // In process 0 this ends the run in this layout for the others.
  ~TrainingInLayout();
  TrainingInLayout(const TrainingInLayout&) = delete;
  TrainingInLayout& operator=(const TrainingInLayout&) = delete;

  // Trains. Returns the exit status, or no value where the run goes on in another layout, from states that it has kept, or from
  // a checkpoint in its save folder. Throws Error: LayoutEnded where the processes that are left have gathered to begin a
  // layout.
  std::optional<int> run();
  LayoutChange& change() { return *change_; }

  std::int64_t steps_done() const;
  // Returns when the job was open, and its ranks began to be built.
  std::chrono::steady_clock::time_point opened() const { return opened_; }
  // Gives the report page away, which the layout has written last; null where there is none. Only after run().
  std::unique_ptr<ReportFile> take_report();

 private:
  struct Parts;
  void prepare(const TrainJob& job);
  void open_led_records(const TrainJob& job);
  bool leads() const;
  std::optional<int> follow();
  std::optional<int> lead();

  const TrainOptions& options_;
  const LayoutHistory& history_;
  JoinedRun* joined_;
  RunLocks& locks_;
  ServedReport& served_;
  std::unique_ptr<Parts> parts_;
  std::optional<LayoutChange> change_;
  std::chrono::steady_clock::time_point opened_{};
  bool taken_lead_ = false;  // from a process that led before
};

}  // namespace pipetrain
