#include "actors/training/run/training_run.hpp"

#include <utility>

#include "actors/engine/run_failed.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "core/error.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

namespace {

std::filesystem::path model_folder(const SavingSettings& saving) { return *saving.folder / "model"; }

}  // namespace

void prepare_saving(const SavingSettings& saving) {
  if (!saving.folder) return;
  check_hf_target(model_folder(saving));
  remove_unfinished_checkpoints(*saving.folder);
}

TrainingRun::TrainingRun(const RunSettings& settings, Trainer& trainer, std::function<void()> check_folder)
    : settings_(settings.saving),
      evaluation_(settings.evaluation),
      trainer_(trainer),
      check_folder_(check_folder ? std::move(check_folder) : [] {}),
      length_(run_length(settings, trainer.steps_per_epoch())) {}

// Adds the setting to a failure, such as a full disk.
template <class Work>
void TrainingRun::save(const Work& work) const {
  check_folder_();
  try {
    work();
  } catch (const RunFailed&) {
    throw;
  } catch (const Error& error) {
    check_folder_();
    if (error.setting() || (error.kind() != ErrorKind::input && error.kind() != ErrorKind::unavailable)) throw;
    throw Error(error.kind(), {"save", settings_.folder->string()}, error.what());
  }
}

bool TrainingRun::finished() const {
  const std::int64_t step = trainer_.steps_done();
  if (step >= length_.steps) return true;
  return trainer_.last_loss() && length_.ends(step, *trainer_.last_loss(), trainer_.first_loss());
}

StepReport TrainingRun::step() {
  StepReport report = trainer_.step(another_follows());
  if (report.has_loss()) last_loss_ = report.loss;
  unlabelled_steps_ += report.has_loss() ? 0 : 1;
  redone_steps_ += report.redone ? 1 : 0;
  return report;
}

// False where the coming step ends the run, an evaluation comes first, or the loss may end the run with an evaluation after it.
bool TrainingRun::another_follows() const {
  const std::int64_t step = trainer_.steps_done() + 1;
  if (step >= length_.steps) return false;
  return !evaluation_.wanted() || (!length_.loss_ratio && step % evaluation_interval() != 0);
}

std::int64_t TrainingRun::evaluation_interval() const { return evaluation_.interval.value_or(trainer_.steps_per_epoch()); }

std::optional<Evaluation> TrainingRun::evaluate_if_due(const std::function<bool()>& stop) {
  if (trainer_.steps_done() % evaluation_interval() != 0 || finished()) return std::nullopt;
  return evaluate(stop);
}

std::optional<Evaluation> TrainingRun::evaluate_last(const std::function<bool()>& stop) {
  return trainer_.steps_done() > evaluated_step_ ? evaluate(stop) : std::nullopt;
}

std::optional<Evaluation> TrainingRun::evaluate(const std::function<bool()>& stop) {
  auto evaluation = trainer_.evaluate(stop);
  if (evaluation) evaluated_step_ = evaluation->step;
  return evaluation;
}

std::chrono::duration<double> TrainingRun::save_if_due() {
  if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) finish_checkpoint();
  if (!settings_.interval || trainer_.steps_done() % *settings_.interval != 0 || finished()) return {};
  const auto start = std::chrono::steady_clock::now();
  finish_checkpoint();
  const auto waited = std::chrono::steady_clock::now() - start;
  begin_checkpoint();
  return waited;
}

void TrainingRun::save_last() {
  if (settings_.folder && trainer_.steps_done() > saved_step_) {
    finish_checkpoint();
    begin_checkpoint();
  }
  finish_checkpoint();
}

void TrainingRun::copy_states() {
  finish_checkpoint();
  trainer_.copy_states();
}

void TrainingRun::keep_states() {
  finish_checkpoint();
  trainer_.keep_states();
}

void TrainingRun::save_model() {
  if (settings_.folder)
    save([&] { trainer_.save_model(model_folder(settings_), {settings_.type, settings_.shard_bytes, {}, {}}); });
}

void TrainingRun::begin_checkpoint() {
  const std::int64_t step = trainer_.steps_done();
  saving_membership_ = trainer_.membership();
  save([&] {
    const auto begin = std::chrono::steady_clock::now();
    saving_ = std::async(std::launch::async,
                         [this, written = trainer_.start_checkpoint(*settings_.folder, check_folder_), step, begin]() mutable {
                           written.get();
                           save_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
                           remove_old_checkpoints(*settings_.folder, step, {settings_.keep, settings_.keep_every});
                         });
  });
  saved_step_ = step;
}

std::optional<std::chrono::duration<double>> TrainingRun::save_time() const {
  const double seconds = save_seconds_;
  return seconds < 0 ? std::nullopt : std::optional(std::chrono::duration<double>(seconds));
}

// A checkpoint whose writers were lost is begun again, from the state that training has reached.
void TrainingRun::finish_checkpoint() {
  while (saving_.valid()) {
    try {
      save([&] { saving_.get(); });
    } catch (const RunFailed& failure) {
      if (!trainer_.recover(failure, saving_membership_)) throw;
      begin_checkpoint();
    }
  }
}

}  // namespace pipetrain
