// The steps of a training run, the outputs after each step, and what is saved and printed at the end.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/records/health_watch.hpp"
#include "actors/training/records/run_records.hpp"
#include "actors/training/run/trainer.hpp"
#include "actors/training/run/training_run.hpp"
#include "apps/options/train_options.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/train/layout_requests.hpp"
#include "apps/train/membership_changes.hpp"
#include "apps/train/step_outputs.hpp"
#include "apps/train/stop_grace.hpp"

namespace pipetrain {

class JoinedRun;

// For process 0. Use it from one thread, except for stop().
class StepLoop {
 public:
  // The objects that are informed of every step.
  struct Listeners {
    StepOutputs& outputs;
    RunRecords& records;
    HealthWatch& watch;
    const OutputLock* save_lock;  // null if nothing is saved
    JoinedRun* joined;            // null in a run of one process
    LayoutRequests& requests;
  };
  // All arguments must outlive the loop.
  StepLoop(const TrainOptions& options, const std::vector<std::string>& notes, Trainer& trainer, const Listeners& listeners);

  // Returns the exit status, or no value where the run goes on in another layout: its state is then in the newest checkpoint
  // of the save folder. Throws RunFailed, and Error if something cannot be written.
  std::optional<int> run();
  // Returns that layout.
  LayoutChange& change() { return *change_; }

  // Answers the first signal that asks the run to stop: prints what becomes of the current step, which is finished as
  // long as its actions complete. If the launcher would kill the run before it is finished and saved, the previous step
  // is saved at once. Thread-safe.
  void stop();

 private:
  void run_steps();
  void check_save_folder() const;
  void print_evaluation(const std::optional<Evaluation>& evaluation);
  void print_unlabelled(const StepReport& report) const;
  void print_frozen(const StepReport& report);
  void print_slow_disk(std::chrono::duration<double> waited);
  bool save_end();
  bool evaluate_end();
  bool write_records(bool stopped);
  void report_end() const;
  void print_stopped() const;
  bool saves() const { return options_.run.saving.folder.has_value(); }

  const TrainOptions& options_;
  Trainer& trainer_;
  RunRecords& records_;
  const OutputLock* save_lock_;
  JoinedRun* joined_;
  LayoutRequests& requests_;
  std::optional<LayoutChange> change_;
  TrainingRun run_;
  StepOutputs& outputs_;
  StopGrace grace_;
  std::optional<Evaluation> last_evaluation_;
  HealthWatch& watch_;
  bool printed_slow_disk_ = false;
  bool has_frozen_ = false;  // see print_frozen()
  MembershipChanges members_;
};

}  // namespace pipetrain
