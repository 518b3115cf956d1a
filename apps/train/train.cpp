#include "apps/train/train.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "actors/training/health_watch.hpp"
#include "actors/training/job_description.hpp"
#include "actors/training/job_estimate.hpp"
#include "actors/training/run_records.hpp"
#include "actors/training/trainer.hpp"
#include "actors/training/training_run.hpp"
#include "apps/launch/joined_run.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/saved_result.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "apps/train/open_job.hpp"
#include "apps/train/record_file.hpp"
#include "apps/train/step_outputs.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "model/costs.hpp"
#include "records/results.hpp"

namespace pipetrain {
namespace {

// The step loop, and what to say at its end.
class StepLoop {
 public:
  // What hears of every step.
  struct Listeners {
    StepOutputs& outputs;
    RunRecords& records;
    HealthWatch& watch;
    const OutputLock* save_lock;  // null where nothing is saved
  };
  StepLoop(const TrainOptions& options, const std::vector<std::string>& notes, Trainer& trainer, const Listeners& listeners)
      : options_(options),
        trainer_(trainer),
        records_(listeners.records),
        save_lock_(listeners.save_lock),
        run_(options.run, trainer, [this] { check_save_folder(); }),
        outputs_(listeners.outputs),
        watch_(listeners.watch) {
    outputs_.begin(notes, run_.length().loss_ratio ? 0 : run_.length().steps);
  }

  // Returns the exit status.
  int run() {
    while (!run_.finished() && stop_signal() == 0) {
      const StepReport report = run_.step();
      outputs_.step(report);
      records_.add(report);
      tell_unlabelled(report);
      for (const auto& line : watch_.add(report)) print_beside_progress(line);
      tell(run_.evaluate_if_due(asked_to_stop));
      tell_slow_disk(run_.save_if_due());
    }
    outputs_.finish();
    const bool stopped = save_end() || !evaluate_end();
    const bool recorded = write_records(stopped);
    stopped ? tell_stopped() : tell_end();
    return stopped || !recorded ? stop_signal_status() : 0;
  }

 private:
  static bool asked_to_stop() { return stop_signal() != 0; }

  void check_save_folder() const {
    if (save_lock_ != nullptr) save_lock_->check();
  }

  void tell(const std::optional<Evaluation>& evaluation) {
    if (!evaluation) return;
    outputs_.evaluation(*evaluation);
    last_evaluation_ = evaluation;
  }

  // The first one as it comes; the end counts them.
  void tell_unlabelled(const StepReport& report) const {
    if (report.has_loss() || run_.unlabelled_steps() > 1) return;
    print_beside_progress(
        fmt::format("step {}: no label of its samples counts, so the step is skipped: weights, optimizer states and the "
                    "learning rate's schedule stay as they were",
                    report.step));
  }

  // Once: a run that saves every few steps would say it as often.
  void tell_slow_disk(std::chrono::duration<double> waited) {
    if (waited < slow_save || told_slow_disk_) return;
    told_slow_disk_ = true;
    print_beside_progress(
        fmt::format("step {} waited {:.1f} s until the last checkpoint was written: save less often (--save-interval), or to a "
                    "faster disk",
                    trainer_.steps_done(), waited.count()));
  }

  // What was learned comes first: a trace that cannot be written must not cost it. Returns whether a signal stopped the run;
  // one that comes while the last checkpoint is saved still does.
  bool save_end() {
    run_.save_last();
    const bool stopped = stop_signal() != 0;
    if (!stopped) run_.save_model();
    return stopped;
  }

  // The last evaluation, and results.json. False when a signal stopped the run.
  bool evaluate_end() {
    tell(run_.evaluate_last(asked_to_stop));
    if (asked_to_stop()) return false;
    if (!options_.run.saving.folder) return true;
    check_save_folder();
    OutputFiles files;
    files.add("save", *options_.run.saving.folder / "results.json", [&](std::ostream& out) {
      out << to_json({.model = options_.run.model.name,
                      .steps = trainer_.steps_done(),
                      .epochs = static_cast<double>(trainer_.steps_done()) / static_cast<double>(trainer_.steps_per_epoch()),
                      .first_loss = trainer_.first_loss(),
                      .loss = trainer_.last_loss(),
                      .evaluation = last_evaluation_ ? std::optional(evaluation_metrics(*last_evaluation_)) : std::nullopt,
                      .eval_samples = last_evaluation_ ? last_evaluation_->samples : 0});
    });
    files.put_in_place();
    return true;
  }

  // False when the run was asked to stop and nobody read what is not a file.
  bool write_records(bool stopped) {
    try {
      outputs_.finish_report(stopped ? RunState::stopped : RunState::finished, stopped ? "by " + stop_signal_name() : "");
      OutputFiles files;
      records_.write([&](const std::string& setting, const std::filesystem::path& file, const auto& write) {
        files.add(setting, file, write);
      });
      files.put_in_place();
      return true;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::aborted) throw;
      print_note(error.what());
      return false;
    }
  }

  void tell_end() const {
    const std::int64_t unlabelled = run_.unlabelled_steps();
    const auto& folder = options_.run.saving.folder;
    const std::string steps = counted(trainer_.steps_done(), "step");
    if (unlabelled > 0)
      print_note(fmt::format("{} of this run skipped, because no label of the samples counted", counted(unlabelled, "step")));
    const std::string loss =
        run_.last_loss() ? fmt::format("loss {:.4f} -> {:.4f}", trainer_.first_loss(), *run_.last_loss()) : "no loss";
    const std::string line =
        !run_.last_loss() && unlabelled == 0
            ? fmt::format("nothing left to do: {} done before\n", steps)
            : fmt::format("{}, {}{}{}\n", steps, loss,
                          last_evaluation_ ? fmt::format(", evaluation {:.4f}", last_evaluation_->loss) : "",
                          folder ? fmt::format(", saved {}", (*folder / "model").string()) : "");
    folder ? print_saved_result(line, *folder) : fmt::print("{}", line);
    if (run_.redone_steps() > 0)
      print_note(fmt::format("post-validation: clipping or a skipped step took back what stages had begun early behind {}",
                             counted(run_.redone_steps(), "step")));
  }

  void tell_stopped() const {
    const std::string signal = stop_signal_name();
    if (options_.run.saving.folder && trainer_.steps_done() > 0) {
      print_note(
          fmt::format("stopped by {} after step {}; go on with the same command and --resume", signal, trainer_.steps_done()));
    } else {
      print_note(fmt::format("stopped by {} after step {}; nothing was saved (--save DIR saves, and --resume goes on)", signal,
                             trainer_.steps_done()));
    }
  }

  static constexpr std::chrono::seconds slow_save{1};

  const TrainOptions& options_;
  Trainer& trainer_;
  RunRecords& records_;
  const OutputLock* save_lock_;
  TrainingRun run_;
  StepOutputs& outputs_;
  std::optional<Evaluation> last_evaluation_;
  HealthWatch& watch_;
  bool told_slow_disk_ = false;
};

// A run that failed: who waited for whom, then the cause. Threads that still run cannot be joined, so the process ends here.
[[noreturn]] void leave_running_threads(int status) {
  hold_ucx_openings();
  std::fflush(nullptr);
  std::_Exit(status);
}

// Schedulers kill half a minute after SIGTERM: by then a hung step has been given up, and its cause told.
constexpr std::chrono::seconds training_patience{20};

// The step that a signal waits for is finished as long as its actions complete. `joined` may be null.
void finish_step(const TrainOptions& options, Trainer& trainer, JoinedRun* joined) {
  if (joined) joined->ask_to_stop(stop_signal());
  print_beside_progress(fmt::format("{}: finishing this step{}; a second signal stops at once", stop_signal_name(),
                                    options.run.saving.folder ? ", then saving" : ""));
  trainer.finish_step(training_patience);
}

void print_waiting(const RunFailed& failure) {
  if (failure.kind() == ErrorKind::input || failure.kind() == ErrorKind::numeric) return;
  for (const auto& line : failure.waiting()) print_note(line);
}

void save_config(const TrainOptions& options) {
  if (!options.save_config) return;
  OutputFiles files;
  files.add("save-config", *options.save_config, [&](std::ostream& out) { out << options.config_text; });
  files.put_in_place();
}

// The page of a run that failed says so. A page that cannot be written does not hide the cause.
void report_training_failure(StepOutputs& outputs, const std::string& cause) {
  try {
    outputs.finish_report(RunState::failed, cause);
  } catch (const Error&) {  // of the page there is nothing to tell beside the cause
  }
}

// Prints what the run would be. Throws Error also where the machine has too little memory for it.
void dry_run_training(const TrainOptions& options, const TrainJob& job, const std::vector<std::string>& notes) {
  std::optional<JobEstimate> estimate;
  placing_errors(options.places,
                 [&] { estimate = estimate_job(job, planned_processes(options.processes, options.run.devices.kind)); });
  fmt::print("{}", job_description(job, *estimate));
  for (const auto& note : notes) print_note(note);
  if (estimate->shortage) throw Error(*estimate->shortage);
}

// Who waits for whom, in the whole run.
void answer_training(Trainer& trainer) {
  for (const auto& line : trainer.waiting()) print_beside_progress(line);
}

// What a process other than the first does. Returns the exit status.
int follow_training(Trainer& trainer, JoinedRun& joined) {
  const SignalAnswers answers([&] { joined.ask_to_stop(stop_signal()); }, [&] { answer_training(trainer); });
  trainer.follow();
  return stop_signal() != 0 ? stop_signal_status() : 0;
}

// What was chosen for the run's processes.
void note_transport(const Trainer& trainer, std::vector<std::string>& notes) {
  if (const std::string carrier = trainer.carried_by(); !carrier.empty()) notes.push_back("between processes: " + carrier);
}

// Which step a run begins with, where that may surprise.
void note_begin(const TrainJob& job, const SavingSettings& saving, std::vector<std::string>& notes) {
  if (job.steps_done > 0) {
    notes.push_back(fmt::format("going on after step {}", job.steps_done));
  } else if (saving.resume) {
    notes.push_back(fmt::format("no complete checkpoint in {}: starting afresh", saving.folder->string()));
  }
}

// Where the folder that the run saves to is lost, writes of its ranks fail for that.
std::optional<Error> lost_folder(const RunFailed& failure, const RunLocks& locks) {
  if (!locks.save || (failure.kind() != ErrorKind::input && failure.kind() != ErrorKind::unavailable)) return std::nullopt;
  try {
    locks.save->check();
    return std::nullopt;
  } catch (const Error& lost) {
    return lost;
  }
}

// Tells the cause. Returns the exit status.
int end_failed_training(const RunFailed& failure, std::optional<StepOutputs>& outputs, RunLocks& locks) {
  const std::optional<Error> lost = lost_folder(failure, locks);
  const std::string line = lost ? error_line(*lost) : failure.what();
  const ErrorKind kind = lost ? lost->kind() : failure.kind();
  print_error(line, kind);
  if (outputs) report_training_failure(*outputs, line);
  const bool stopped = kind == ErrorKind::aborted && stop_signal() != 0;
  const int status = stopped ? stop_signal_status() : exit_status(kind);
  if (!failure.everything_stopped()) {
    locks = {};
    outputs.reset();
    leave_running_threads(status);
  }
  return status;
}

}  // namespace

int run_train(const TrainOptions& options) {
  const SavingSettings& saving = options.run.saving;
  std::vector<std::string> notes = options.notes;
  const std::unique_ptr<JoinedRun> joined = join_run(options);
  RunLocks locks;
  std::optional<TrainJob> job = open_job(options, joined.get(), locks, notes);
  if (options.processes.leads()) save_config(options);
  if (options.dry_run) {
    if (options.processes.leads()) dry_run_training(options, *job, notes);
    return 0;
  }
  note_begin(*job, saving, notes);
  const double flops_per_token = model_flops_per_token(job->config, job->dataset->sequence_length());
  const auto prepare = [&] { prepare_saving(saving); };
  joined ? joined->in_first("saving", prepare) : prepare();
  RunRecords records(options.processes.leads() ? options.records : RecordSettings{}, *job, options.run.model.name);
  const auto record = open_record(options, *job);
  job->recorder = record;
  const auto report = options.processes.leads() ? open_report(options, *job) : nullptr;
  std::optional<HealthWatch> watch;
  std::unique_ptr<Trainer> trainer;
  placing_errors(options.places, [&] {
    watch.emplace(*job, options.watch);
    trainer = std::make_unique<Trainer>(std::move(*job));
  });
  job.reset();
  std::optional<StepOutputs> outputs;  // while a signal still ends the process at once: a pipe may have no reader
  try {
    if (!options.processes.leads()) return follow_training(*trainer, *joined);
    note_transport(*trainer, notes);
    placing_errors(options.places, [&] { outputs.emplace(options, *trainer, flops_per_token, report.get()); });
    const SignalAnswers answers([&] { finish_step(options, *trainer, joined.get()); }, [&] { answer_training(*trainer); });
    const int status = StepLoop(options, notes, *trainer, {*outputs, records, *watch, locks.save.get()}).run();
    if (record) record->finish();
    return status;
  } catch (const RunFailed& failure) {
    if (!joined || joined->is_to_tell(failure)) print_waiting(failure);
    return end_failed_training(failure, outputs, locks);
  } catch (const Error& error) {  // what could not be saved or recorded
    if (outputs) report_training_failure(*outputs, error_line(error));
    throw;
  }
}

}  // namespace pipetrain
