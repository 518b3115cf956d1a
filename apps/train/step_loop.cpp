#include "apps/train/step_loop.hpp"

#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "actors/engine/run_failed.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/saved_result.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "records/results.hpp"

namespace pipetrain {
namespace {

constexpr std::chrono::seconds slow_save{1};

// Schedulers kill half a minute after SIGTERM: by then a hung step must have been given up, and its cause reported.
constexpr std::chrono::seconds training_patience{20};

bool is_asked_to_stop() { return stop_signal() != 0; }

}  // namespace

StepLoop::StepLoop(const TrainOptions& options, const std::vector<std::string>& notes, Trainer& trainer,
                   const Listeners& listeners)
    : options_(options),
      trainer_(trainer),
      records_(listeners.records),
      save_lock_(listeners.save_lock),
      joined_(listeners.joined),
      requests_(listeners.requests),
      run_(options.run, trainer, [this] { check_save_folder(); }),
      outputs_(listeners.outputs),
      grace_(options.processes.stop_grace),
      watch_(listeners.watch),
      members_(options, trainer, run_, joined_, outputs_) {
  outputs_.begin(notes, run_.length().loss_ratio ? 0 : run_.length().steps);
}

// Notes the first step whose gradients were exchanged in 1 bit.
void StepLoop::print_frozen(const StepReport& report) {
  if (report.frozen_after == 0 || std::exchange(has_frozen_, true)) return;
  outputs_.warn(
      fmt::format("step {}: the second moments stay as they were after {}, and gradients travel in 1 bit from here on",
                  report.step, counted(report.frozen_after, "applied step")));
}

std::optional<int> StepLoop::run() {
  run_steps();
  outputs_.finish();
  if (change_) {
    change_->mark("check");
    trainer_.keeps_states() ? run_.keep_states() : run_.save_last();
    change_->mark(trainer_.keeps_states() ? "states" : "checkpoint");
    return std::nullopt;
  }
  const bool stopped = save_end() || !evaluate_end();
  const bool recorded = write_records(stopped);
  stopped ? print_stopped() : report_end();
  return stopped || !recorded ? stop_signal_status() : 0;
}

void StepLoop::run_steps() {
  try {
    while (!change_ && !run_.finished() && !is_asked_to_stop()) {
      StepReport report = run_.step();
      grace_.step_took(report.seconds);
      members_.print(report.takeovers);
      outputs_.step(report);
      records_.add(report);
      print_unlabelled(report);
      print_frozen(report);
      for (const auto& line : watch_.add(report)) outputs_.warn(line);
      print_evaluation(run_.evaluate_if_due(is_asked_to_stop));
      print_slow_disk(run_.save_if_due());
      if (!run_.finished()) members_.change();
      requests_.add(std::move(report));
      if (!run_.finished() && !is_asked_to_stop()) change_ = requests_.take();
    }
  } catch (const StepLeft&) {  // the last finished step is kept
  }
}

void StepLoop::stop() {
  const std::string signal = stop_signal_name();
  const bool fits = grace_.fits_step(saves(), run_.save_time());
  if (!fits && trainer_.leave_step()) {
    print_over_progress(
        fmt::format("{}: leaving this step{}, because the launcher kills {} s after the signal; a second "
                    "signal stops at once",
                    signal, saves() ? " and saving the one before" : "", grace_.grace()->count()));
    return;
  }
  print_over_progress(
      fmt::format("{}: finishing this step{}; a second signal stops at once", signal, saves() ? ", then saving" : ""));
  trainer_.finish_step(training_patience);
}

void StepLoop::check_save_folder() const {
  if (save_lock_ != nullptr) save_lock_->check();
}

void StepLoop::print_evaluation(const std::optional<Evaluation>& evaluation) {
  if (!evaluation) return;
  records_.add(*evaluation);
  outputs_.evaluation(*evaluation);
  last_evaluation_ = evaluation;
}

// Notes the first such step when it happens; the end of the run counts them.
void StepLoop::print_unlabelled(const StepReport& report) const {
  if (report.has_loss() || run_.unlabelled_steps() > 1) return;
  outputs_.warn(
      fmt::format("step {}: no label of its samples counts, so the step is skipped: weights, optimizer states and the "
                  "learning rate's schedule stay as they were",
                  report.step));
}

// Notes it once: a run that saves every few steps would repeat it as often.
void StepLoop::print_slow_disk(std::chrono::duration<double> waited) {
  if (waited < slow_save || printed_slow_disk_) return;
  printed_slow_disk_ = true;
  outputs_.warn(
      fmt::format("step {} waited {:.1f} s until the last checkpoint was written: save less often (--save-interval), or to a "
                  "faster disk",
                  trainer_.steps_done(), waited.count()));
}

// Saves the weights first, so that a trace that cannot be written does not cost them. Returns true if a signal stopped
// the run, even one that comes while the last checkpoint is being saved.
bool StepLoop::save_end() {
  run_.save_last();
  const bool stopped = is_asked_to_stop();
  if (!stopped) run_.save_model();
  return stopped;
}

// Runs the last evaluation and writes results.json. Returns false if a signal stopped the run.
bool StepLoop::evaluate_end() {
  try {
    print_evaluation(run_.evaluate_last(is_asked_to_stop));
  } catch (const StepLeft&) {
    return false;
  }
  if (is_asked_to_stop()) return false;
  if (!saves()) return true;
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

// Returns false if the run was asked to stop and nobody read an output that is not a file.
bool StepLoop::write_records(bool stopped) {
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

void StepLoop::report_end() const {
  const std::int64_t unlabelled = run_.unlabelled_steps();
  const auto& folder = options_.run.saving.folder;
  const std::string steps = counted(trainer_.steps_done(), "step");
  if (unlabelled > 0)
    print_note(fmt::format("{} of this run skipped, because no label of the samples counted", counted(unlabelled, "step")));
  const std::string loss =
      run_.last_loss() ? fmt::format("loss {:.4f} -> {:.4f}", trainer_.first_loss(), *run_.last_loss()) : "no loss";
  const std::string line = !run_.last_loss() && unlabelled == 0
                               ? fmt::format("nothing left to do: {} done before\n", steps)
                               : fmt::format("{}, {}{}{}\n", steps, loss,
                                             last_evaluation_ ? fmt::format(", evaluation {:.4f}", last_evaluation_->loss) : "",
                                             folder ? fmt::format(", saved {}", (*folder / "model").string()) : "");
  folder ? print_saved_result(line, *folder) : fmt::print("{}", line);
  if (run_.redone_steps() > 0)
    print_note(fmt::format("post-validation: clipping or a skipped step took back what stages had begun early after {}",
                           counted(run_.redone_steps(), "step")));
}

void StepLoop::print_stopped() const {
  const std::string signal = stop_signal_name();
  const char* advice = saves() && trainer_.steps_done() > 0 ? "continue with the same command and --resume"
                                                            : "nothing was saved (--save DIR saves, and --resume continues)";
  print_note(fmt::format("stopped by {} after step {}; {}", signal, trainer_.steps_done(), advice));
}

}  // namespace pipetrain
