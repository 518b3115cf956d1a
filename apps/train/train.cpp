#include "apps/train/train.hpp"

#include <fmt/format.h>

#include <chrono>
<<<<<<< HEAD
=======
#include <cstdlib>
    >>>>>>> main
#include <memory>
#include <optional>
#include <thread>
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

<<<<<<< HEAD
=======
  // Does the work, which locks outputs of the run, once the process that led before has released them: it may need some
  // seconds to notice that the others have gone on without it.
  template <class Work>
  void when_released(const TrainOptions& options, const Work& work) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds longest_end{15};
    constexpr std::chrono::milliseconds look{100};
    for (const auto until = Clock::now() + longest_end;; std::this_thread::sleep_for(look)) {
      try {
        return placing_errors(options.places, work);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::input || Clock::now() > until) throw;
      }
    }
  }

  // Makes this process, which has followed so far, the one that saves and reports: files that the process before it has begun
  // are continued or removed. Returns the notes for the user.
  std::vector<std::string> take_lead(const TrainOptions& options, RunLocks& locks) {
    set_line_begin("");
    std::vector<std::string> notes;
    when_released(options, [&] {
      notes.clear();
      locks.others.clear();
      take_outputs(options, locks, notes);
    });
    prepare_saving(options.run.saving);
    return notes;
  }

  // Runs process 0. `joined` may be null. Returns the exit status.
  int lead_training(StepLoop& loop, Trainer& trainer, JoinedRun* joined) {
    const auto stop = [&] {
      if (joined) joined->ask_to_stop(stop_signal());
      loop.stop();
    };
    const SignalAnswers answers(stop, [&] { answer_training(trainer); });
    return loop.run();
  }

  ModelFigures figures_of(const TrainJob& job) {
    return {model_flops_per_token(job.config, job.dataset->sequence_length()), trained_parameter_count(job.config)};
  }

  // Notes the transport that was chosen for the run's processes.
  void note_transport(const Trainer& trainer, std::vector<std::string>& notes) {
    if (const std::string carrier = trainer.carried_by(); !carrier.empty()) notes.push_back("between processes: " + carrier);
  }

  // Notes the step at which the run begins, if that may surprise.
  void note_begin(const TrainJob& job, const SavingSettings& saving, std::vector<std::string>& notes) {
    if (job.steps_done > 0) {
      notes.push_back(fmt::format("resuming after step {}", job.steps_done));
    } else if (saving.resume) {
      notes.push_back(fmt::format("no complete checkpoint in {}: starting afresh", saving.folder->string()));
    }
  }

  // Returns the error of a lost output folder, which is the real cause of failed writes of its ranks.
  std::optional<Error> lost_folder(const RunFailed& failure, const RunLocks& locks) {
    if (!locks.save || (failure.kind() != ErrorKind::input && failure.kind() != ErrorKind::unavailable)) return std::nullopt;
    try {
      locks.save->check();
      return std::nullopt;
    } catch (const Error& lost) {
      return lost;
    }
  }

  // Reports the cause. `joined` may be null. Returns the exit status.
  int end_failed_training(const RunFailed& failure, const TrainOptions& options, const JoinedRun* joined,
                          std::optional<StepOutputs>& outputs, RunLocks& locks) {
    const std::optional<Error> lost = lost_folder(failure, locks);
    const std::string cause = lost ? error_line(*lost) : failure.what();
    if (lost) print_error(cause, lost->kind());
    const int status = lost ? exit_status(lost->kind()) : report_failed_run(failure, joined, options.processes.stop_grace);
    if (outputs) report_training_failure(*outputs, cause);
    if (!failure.everything_stopped()) {
      locks = {};
      outputs.reset();
      leave_running_threads(status);
    }
    return status;
  }

>>>>>>> main
  }  // namespace

  int run_train(const TrainOptions& options) {
    if (!options.processes.leads()) leave_stop_to_first_process();
<<<<<<< HEAD
    if (options.dry_run) return dry_run(options);
    return SuccessiveLayouts(options).run();
=======
    const std::unique_ptr<JoinedRun> joined = join_run(options);
    RunLocks locks;
    std::optional<TrainJob> job = open_job(options, joined.get(), locks, notes);
    if (options.processes.leads()) save_config(options);
    if (options.dry_run) {
      if (options.processes.leads()) dry_run_training(options, *job, notes);
      return 0;
    }
    note_begin(*job, saving, notes);
    const auto prepare = [&] { prepare_saving(saving); };
    joined ? joined->in_first("saving", prepare) : prepare();
    std::optional<LedRecords> led;
    if (options.processes.leads()) led.emplace(options, *job);
    const auto record = open_record(options, *job);
    job->recorder = record;
    const TrainJob begun = *job;  // the trainer changes its own
    std::optional<HealthWatch> watch;
    std::unique_ptr<Trainer> trainer;
    placing_errors(options.places, [&] {
      watch.emplace(*job, options.watch);
      trainer = std::make_unique<Trainer>(std::move(*job));
    });
    job.reset();
    // Opened while a signal still ends the process at once, because a pipe may have no reader.
    std::optional<StepOutputs> outputs;
    try {
      if (!options.processes.leads()) {
        joined->on_half([&] { return takes_save_folder(options, locks); });
        if (const auto status = follow_training(*trainer, *joined)) return *status;
        notes = take_lead(options, locks);
        led.emplace(options, begun);
      }
      note_transport(*trainer, notes);
      const auto open_outputs = [&] { outputs.emplace(options, *trainer, figures_of(begun), led->report.get()); };
      options.processes.leads() ? placing_errors(options.places, open_outputs) : when_released(options, open_outputs);
      StepLoop loop(options, notes, *trainer, {*outputs, led->records, *watch, locks.save.get()});
      const int status = lead_training(loop, *trainer, joined.get());
      if (record) record->finish();
      return status;
    } catch (const RunFailed& failure) {
      return end_failed_training(failure, options, joined.get(), outputs, locks);
    } catch (const Error& error) {  // a failed save or record
      if (outputs) report_training_failure(*outputs, error_line(error));
      throw;
    }
>>>>>>> main
  }

}  // namespace pipetrain
