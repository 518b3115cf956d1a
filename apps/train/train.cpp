#include "apps/train/train.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "actors/training/run/job_description.hpp"
#include "actors/training/run/job_memory.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/signals/signals.hpp"
#include "apps/train/open_job.hpp"
#include "apps/train/training_in_layout.hpp"
#include "core/error.hpp"

namespace pipetrain {
namespace {

// Prints the plan of the run. Throws Error also if the machine has too little memory for it.
void dry_run_training(const TrainOptions& options, const TrainJob& job, const std::vector<std::string>& notes) {
  std::optional<JobEstimate> estimate;
  auto planned = planned_processes(options.processes, options.run.devices.kind);
  if (planned) planned->processes -= options.run.spares;
  placing_errors(options.places, [&] { estimate = estimate_job(job, planned); });
  fmt::print("{}", job_description(job, *estimate));
  for (const auto& note : notes) print_note(note);
  if (estimate->shortage) throw Error(*estimate->shortage);
}

int dry_run(const TrainOptions& options) {
  RunLocks locks;
  std::vector<std::string> notes = options.notes;
  const TrainJob job = open_job(options, nullptr, locks, notes);
  if (!options.processes.leads()) return 0;
  save_config(options);
  dry_run_training(options, job, notes);
  return 0;
}

// The successive layouts of a run in one process.
class SuccessiveLayouts {
 public:
  explicit SuccessiveLayouts(const TrainOptions& options) : options_(options), joined_(join_run(options)) {}

  // Returns the exit status.
  int run() {
    for (;;) {
      std::unique_ptr<TrainingInLayout> training = begin();
      if (const auto status = training->run()) return *status;
      change_ = std::move(training->change());
      step_ = training->steps_done();
      history_.memberships = training->membership();
      ++history_.relayouts;
      end(training);
    }
  }

 private:
  // Where the run has been asked for this layout, tells so; where it cannot be built, a run of one process goes back to the
  // one before.
  std::unique_ptr<TrainingInLayout> begin() {
    try {
      auto training = std::make_unique<TrainingInLayout>(options_, joined_.get(), locks_, history_);
      if (change_ && !change_->request.id.empty())
        answer(true, fmt::format("after step {}: {}; it took {:.2f} s", step_, change_->text,
                                 std::chrono::duration<double>(std::chrono::steady_clock::now() - change_->since).count()));
      change_.reset();
      return training;
    } catch (const Error& error) {
      if (!change_ || joined_) throw;
      answer(false, "the run goes on in its old layout: " + error_line(error));
      change_.reset();
      options_ = std::move(before_);
    }
    return std::make_unique<TrainingInLayout>(options_, joined_.get(), locks_, history_);
  }

  // Every process ends the old layout before it deals the ranks of the new one.
  void end(std::unique_ptr<TrainingInLayout>& training) {
    training.reset();
    before_ = std::move(options_);
    before_.run.saving.resume = true;
    before_.run.saving.load.reset();
    options_ = std::move(change_->options);
    if (joined_) joined_->deal_anew(static_cast<int>(options_.run.ranks()), options_.run.spares);
  }

  void answer(bool changed, const std::string& text) const {
    LayoutRequests::answer(*options_.run.saving.folder, {change_->request.id, changed, one_line(text)});
  }

  TrainOptions options_, before_;
  std::unique_ptr<JoinedRun> joined_;
  RunLocks locks_;
  LayoutHistory history_;
  std::optional<LayoutChange> change_;  // until its layout has begun
  std::int64_t step_ = 0;               // after which the layout changes
};

}  // namespace

int run_train(const TrainOptions& options) {
  if (!options.processes.leads()) leave_stop_to_first_process();
  if (options.dry_run) return dry_run(options);
  return SuccessiveLayouts(options).run();
}

}  // namespace pipetrain
