#include "apps/train/train.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "actors/training/records/health_watch.hpp"
#include "actors/training/records/run_records.hpp"
#include "actors/training/run/job_description.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/trainer.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/failed_run.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/signals/signals.hpp"
#include "apps/train/open_job.hpp"
#include "apps/train/record_file.hpp"
#include "apps/train/step_loop.hpp"
#include "apps/train/step_outputs.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/error.hpp"
#include "model/costs.hpp"

namespace pipetrain {
namespace {

// Ends the process after a failed run, because threads that still run cannot be joined.
[[noreturn]] void leave_running_threads(int status) {
  hold_ucx_openings();
  std::fflush(nullptr);
  std::_Exit(status);
}

void save_config(const TrainOptions& options) {
  if (!options.save_config) return;
  OutputFiles files;
  files.add("save-config", *options.save_config, [&](std::ostream& out) { out << options.config_text; });
  files.put_in_place();
}

// Writes the failure into the report page. A page that cannot be written must not hide the cause.
void report_training_failure(StepOutputs& outputs, const std::string& cause) {
  try {
    outputs.finish_report(RunState::failed, cause);
  } catch (const Error&) {  // the cause matters more than the page
  }
}

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

// Prints which stage waits for which, in the whole run.
void answer_training(Trainer& trainer) {
  for (const auto& line : trainer.waiting()) print_over_progress(line);
}

// Runs a process other than the first. Returns the exit status, or no value where it has become the first process.
std::optional<int> follow_training(Trainer& trainer, JoinedRun& joined) {
  const SignalAnswers answers([&] { joined.ask_to_stop(stop_signal()); }, [&] { answer_training(trainer); });
  if (trainer.follow()) return std::nullopt;
  return stop_signal() != 0 ? stop_signal_status() : 0;
}

// True when this process could lock the save folder, and so the process that saved there is gone: the run then belongs to the
// half of its processes that is left here. The lock is kept.
bool takes_save_folder(const TrainOptions& options, RunLocks& locks) {
  if (!options.run.saving.folder) return false;
  try {
    std::vector<std::string> notes;
    auto lock = OutputLock::of_folder("save", *options.run.saving.folder, notes);
    if (!notes.empty()) return false;  // a file system without locks
    locks.save = std::move(lock);
    return true;
  } catch (const Error&) {  // another process holds it
    return false;
  }
}

// The records that process 0 writes, besides those of StepOutputs.
struct LedRecords {
  LedRecords(const TrainOptions& options, const TrainJob& job)
      : records(options.records, job, options.run.model.name), report(open_report(options, job)) {}
  RunRecords records;
  std::unique_ptr<ReportFile> report;  // null: none is requested
};

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

}  // namespace

int run_train(const TrainOptions& options) {
  const SavingSettings& saving = options.run.saving;
  std::vector<std::string> notes = options.notes;
  if (!options.processes.leads()) leave_stop_to_first_process();
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
}

}  // namespace pipetrain
