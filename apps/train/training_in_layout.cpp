#include "apps/train/training_in_layout.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <ostream>
#include <thread>
#include <utility>

#include "actors/engine/run_failed.hpp"
#include "actors/training/records/health_watch.hpp"
#include "actors/training/records/run_records.hpp"
#include "actors/training/run/job_description.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/memberships.hpp"
#include "actors/training/run/trainer.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/failed_run.hpp"
#include "apps/signals/signals.hpp"
#include "apps/train/record_file.hpp"
#include "apps/train/save_kept.hpp"
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

// Prints which stage waits for which, in the whole run.
void answer_training(Trainer& trainer) {
  for (const auto& line : trainer.waiting()) print_over_progress(line);
}

// Runs a process other than the first. leaving: it may hand over its ranks. Returns the exit status, or no value where it has
// become the first process.
std::optional<int> follow_training(Trainer& trainer, JoinedRun& joined, bool leaving) {
  const SignalAnswers answers({[&] { joined.ask_to_stop(stop_signal()); }, [&] { answer_training(trainer); },
                               [&] { leaving ? joined.ask_to_leave() : request_stop(preemption_signal()); }});
  if (stop_signal() != 0) joined.ask_to_stop(stop_signal());  // it came while the layout changed
  if (trainer.follow()) return std::nullopt;
  return stop_signal() != 0 ? stop_signal_status() : 0;
}

// The records that process 0 writes, besides those of StepOutputs.
struct LedRecords {
  LedRecords(const TrainOptions& options, const TrainJob& job, PageServer* server)
      : records(options.records, job, options.run.model.name), report(open_report(options, job, server)) {}
  RunRecords records;
  std::unique_ptr<ReportFile> report;  // null: none is requested
};

// Does the work, which locks outputs of the run, once the process that led before has released them: it may need some
// seconds to notice that the others have gone on without it.
template <class Work>
void when_released(const TrainOptions& options, const Work& work) {
  constexpr std::chrono::seconds longest_end{15};
  constexpr std::chrono::milliseconds look{100};
  for (const auto until = std::chrono::steady_clock::now() + longest_end;; std::this_thread::sleep_for(look)) {
    try {
      return placing_errors(options.places, work);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::input || std::chrono::steady_clock::now() > until) throw;
    }
  }
}

// Runs process 0. `joined` may be null. leaving: it may hand over its ranks. Returns as StepLoop::run().
std::optional<int> lead_training(StepLoop& loop, Trainer& trainer, JoinedRun* joined, bool leaving) {
  const auto stop = [&] {
    if (joined) joined->ask_to_stop(stop_signal());
    loop.stop();
  };
  const SignalAnswers answers({stop, [&] { answer_training(trainer); },
                               [&] { joined&& leaving ? joined->ask_to_leave() : request_stop(preemption_signal()); }});
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
                        std::optional<StepOutputs>& outputs, RunLocks& locks, ServedReport& served) {
  const std::optional<Error> lost = lost_folder(failure, locks);
  const std::string cause = lost ? error_line(*lost) : failure.what();
  if (lost) print_error(cause, lost->kind());
  const int status = lost ? exit_status(lost->kind()) : report_failed_run(failure, joined, options.processes.stop_grace);
  if (outputs) outputs->fail(cause);
  served.end();
  if (!failure.everything_stopped()) {
    locks = {};
    outputs.reset();
    leave_running_threads(status);
  }
  return status;
}

}  // namespace

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

std::string announced_text(const LayoutChange& change) {
  std::vector<std::string> lines{change.request.id, one_line(change.text)};
  lines.insert(lines.end(), change.arguments.begin(), change.arguments.end());
  return to_lines(lines);
}

LayoutChange announced_change(const std::string& text, const TrainOptions& options, const RunPlace& place) {
  const std::vector<std::string> lines = lines_of(text);
  LayoutChange change;
  change.request.id = lines.at(0);
  change.text = lines.at(1);
  change.arguments.assign(lines.begin() + 2, lines.end());
  change.options = options.changed(change.arguments, place);
  change.since = std::chrono::steady_clock::now();
  return change;
}

void save_config(const TrainOptions& options) {
  if (!options.save_config) return;
  OutputFiles files;
  files.add("save-config", *options.save_config, [&](std::ostream& out) { out << options.config_text; });
  files.put_in_place();
}

// Everything that is made anew for a layout lives as long as it.
struct TrainingInLayout::Parts {
  std::vector<std::string> notes;
  std::optional<LedRecords> led;
  std::shared_ptr<RecordFile> record;
  TrainJob begun;  // the trainer changes its own
  std::optional<HealthWatch> watch;
  std::unique_ptr<Trainer> trainer;
  std::optional<StepOutputs> outputs;
};

TrainingInLayout::TrainingInLayout(const TrainOptions& options, JoinedRun* joined, RunLocks& locks,
                                   const LayoutHistory& history, ServedReport& served, const RunBefore& before)
    : options_(options), history_(history), joined_(joined), locks_(locks), served_(served), parts_(std::make_unique<Parts>()) {
  parts_->notes = options.notes;
  TrainJob job = open_job(options, joined, locks, parts_->notes, before);
  opened_ = std::chrono::steady_clock::now();
  job.relayouts = history.relayouts;
  if (!history.begun && !(joined && joined->joins())) prepare(job);
  if (leads()) open_led_records(job);
  parts_->record = open_record(options, job, leads(), history.begun);
  job.recorder = parts_->record;
  parts_->begun = job;
  if (job.kept) parts_->begun.initial.forget_sources();
  placing_errors(options.places, [&] {
    parts_->watch.emplace(job, options.watch);
    parts_->trainer = std::make_unique<Trainer>(std::move(job));
  });
}

TrainingInLayout::~TrainingInLayout() = default;

void TrainingInLayout::prepare(const TrainJob& job) {
  if (leads()) save_config(options_);
  note_begin(job, options_.run.saving, parts_->notes);
  const auto prepare = [&] {
    prepare_saving(options_.run.saving);
    if (options_.run.saving.folder) remove_relayout_files(*options_.run.saving.folder);
  };
  joined_ ? joined_->in_first("saving", prepare) : prepare();
}

void TrainingInLayout::open_led_records(const TrainJob& job) {
  if (const auto line = served_.begin(options_)) parts_->notes.push_back(*line);
  parts_->led.emplace(options_, job, served_.server());
}

bool TrainingInLayout::leads() const { return joined_ == nullptr || joined_->leads(); }
std::int64_t TrainingInLayout::steps_done() const { return parts_->trainer->steps_done(); }

std::unique_ptr<ReportFile> TrainingInLayout::take_report() {
  parts_->outputs.reset();  // it uses the page
  return parts_->led ? std::move(parts_->led->report) : nullptr;
}

std::optional<int> TrainingInLayout::run() {
  try {
    return leads() ? lead() : follow();
  } catch (const RunFailed& failure) {
    save_kept(parts_->begun.kept, options_, locks_);
    return end_failed_training(failure, options_, joined_, parts_->outputs, locks_, served_);
  } catch (const LayoutEnded&) {
    throw;
  } catch (const Error& error) {  // a failed save or record
    if (parts_->outputs) parts_->outputs->fail(error_line(error));
    throw;
  }
}

std::optional<int> TrainingInLayout::follow() {
  const auto status = follow_training(*parts_->trainer, *joined_, options_.run.elastic == Elastic::takeover);
  if (!status) {
    taken_lead_ = true;
    parts_->notes = take_lead(options_, locks_);
    open_led_records(parts_->begun);
    return lead();
  }
  const RunLayout announced = joined_->layout();
  if (announced.changes == history_.relayouts) return status;
  change_ = announced_change(announced.text, options_, joined_->place());
  return std::nullopt;
}

// The outputs are opened while a signal still ends the process at once, because a pipe may have no reader.
std::optional<int> TrainingInLayout::lead() {
  Parts& parts = *parts_;
  note_transport(*parts.trainer, parts.notes);
  const auto open = [&] {
    parts.outputs.emplace(options_, *parts.trainer, figures_of(parts.begun), parts.led->report.get());
    if (taken_lead_ && parts.record) parts.record->lead(*options_.records.record);
  };
  taken_lead_ ? when_released(options_, open) : placing_errors(options_.places, open);
  LayoutRequests requests(options_, parts.begun, joined_, history_.arguments);
  StepLoop loop(options_, parts.notes, *parts.trainer,
                {*parts.outputs, parts.led->records, *parts.watch, locks_.save.get(), joined_, requests});
  const auto status = lead_training(loop, *parts.trainer, joined_, options_.run.elastic == Elastic::takeover);
  if (parts.record) parts.record->finish();
  if (!status) change_ = std::move(loop.change());
  if (change_ && joined_) joined_->announce_relayout(announced_text(*change_));
  return status;
}

}  // namespace pipetrain
