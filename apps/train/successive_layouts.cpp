#include "apps/train/successive_layouts.hpp"

#include <fmt/format.h>

#include <utility>

#include "actors/training/run/memberships.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/train/save_kept.hpp"
#include "core/error.hpp"
#include "records/failure_note.hpp"

namespace pipetrain {

SuccessiveLayouts::SuccessiveLayouts(const TrainOptions& options) : options_(options), joined_(join_run(options)) {
  if (!joined_) {
    if (options_.run.saving.folder) from_.kept = std::make_shared<KeptStates>();
    return;
  }
  joined_->on_half([this] { return takes_save_folder(options_, locks_); });
  if (!joined_->joins()) return;
  if (joined_->layout().changes > 0) take_announced();
  // This process gets its states from the others.
  options_.run.saving.resume = false;
  options_.run.saving.load.reset();
  options_.run.fault.reset();
  change_.reset();
}

int SuccessiveLayouts::run() {
  try {
    return run_layouts();
  } catch (const Error& error) {
    tell_end(error);
    throw;
  }
}

int SuccessiveLayouts::run_layouts() {
  for (;;) {
    try {
      if (const auto status = run_layout()) return *status;
    } catch (const LayoutEnded&) {
      begin_again(true);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::peer_lost || !joined_ || !has_lost_others(*joined_->processes())) throw;
      begin_again(false);
    }
  }
}

std::optional<int> SuccessiveLayouts::run_layout() {
  std::unique_ptr<TrainingInLayout> training = begin();
  history_.begun = true;
  between_ = false;
  page_.reset();
  try {
    if (const auto status = training->run()) return status;
  } catch (const LayoutEnded&) {
    keep_page(*training);
    throw;
  }
  change_ = std::move(training->change());
  keep_page(*training);
  end(training);
  return std::nullopt;
}

void SuccessiveLayouts::keep_page(TrainingInLayout& training) {
  between_ = true;
  step_ = training.steps_done();
  page_ = training.take_report();
}

// Reports on the page, in the metrics and to the relayout command of process 0 that no further layout can begin.
void SuccessiveLayouts::tell_end(const Error& error) noexcept {
  if (!between_ || !leads()) return;
  save_kept(from_.kept, options_, locks_);
  try {
    const std::string cause = one_line(error_line(error));
    if (options_.records.metrics) write_failure_note(*options_.records.metrics, {step_ + 1, cause});
    if (page_) page_->finish(RunState::failed, cause);
    if (change_) answer(false, "the run ends, because its next layout cannot begin: " + cause);
  } catch (const std::exception&) {
    // The failure that ends the run is the one to report.
  }
}

// Begins the run in the present layout, and reports it if it was asked for. If it cannot be built, a run of one process goes
// back to the layout before.
std::unique_ptr<TrainingInLayout> SuccessiveLayouts::begin() {
  take_data();
  try {
    auto training = std::make_unique<TrainingInLayout>(options_, joined_.get(), locks_, history_, served_, from_);
    if (change_ && leads()) {
      change_->mark("open", training->opened());
      change_->mark("build");
      answer(true, fmt::format("after step {}: {}; {}", step_, change_->text, change_->times()));
    }
    change_.reset();
    return training;
  } catch (const Error& error) {
    if (!change_ || joined_) throw;
    answer(false, "the run goes on in its old layout: " + error_line(error));
    change_.reset();
    options_ = std::move(before_);
  }
  return std::make_unique<TrainingInLayout>(options_, joined_.get(), locks_, history_, served_, from_);
}

// The data stay open while their run goes on.
void SuccessiveLayouts::take_data() {
  const auto held = from_.kept ? from_.kept->held() : nullptr;
  if (!held) return;
  from_.data = held->data;
  from_.evaluation = held->evaluation;
}

// Every process ends the old layout before it deals the ranks of the new one.
void SuccessiveLayouts::end(std::unique_ptr<TrainingInLayout>& training) {
  training.reset();
  change_->mark("end");
  before_ = std::move(options_);
  before_.run.saving.resume = true;
  before_.run.saving.load.reset();
  options_ = change_->options;
  history_.arguments = change_->arguments;
  ++history_.relayouts;
  if (joined_) joined_->deal_anew(static_cast<int>(options_.run.ranks()), options_.run.spares);
}

// Takes the layout that was announced last.
void SuccessiveLayouts::take_announced() {
  const RunLayout announced = joined_->layout();
  change_ = announced_change(announced.text, options_, joined_->joins() ? RunPlace{1, 2} : joined_->place());
  options_ = change_->options;
  history_.arguments = change_->arguments;
  history_.relayouts = announced.changes;
}

// After the loss of a process while the layout changed: begins the newest layout that one of those that are left knows, from
// the checkpoint that was written before.
void SuccessiveLayouts::begin_again(bool gathered) {
  if (!gathered) joined_->gather();
  const SavingSettings saving = options_.run.saving;
  const bool led = locks_.save != nullptr;
  if (joined_->layout().changes > history_.relayouts) {
    take_announced();
  } else {
    options_ = options_.changed({}, joined_->place());
    if (history_.relayouts == 0) options_.run.saving = saving;
  }
  options_.run.fault.reset();
  joined_->deal(static_cast<int>(options_.run.ranks()), options_.run.spares);
  print_over_progress(
      fmt::format("a process was lost while the run changed its layout; {} left begin it from the newest "
                  "checkpoint",
                  joined_->place().processes));
  if (joined_->leads() && !led) take_lead(options_, locks_);
}

void SuccessiveLayouts::answer(bool changed, const std::string& text) const {
  LayoutRequests::answer(*options_.run.saving.folder, {change_->request.id, changed, one_line(text)});
}

}  // namespace pipetrain
