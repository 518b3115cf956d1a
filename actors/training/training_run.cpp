#include "actors/training/training_run.hpp"

#include "actors/training/checkpoint.hpp"
#include "core/error.hpp"
#include "files/file_io.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain {

namespace {

std::filesystem::path model_folder(const SavingSettings& saving) { return *saving.folder / "model"; }

// Names the setting where the disk is full, say.
template <class Save>
void save(const SavingSettings& saving, Save action) {
  try {
    action();
  } catch (const WriteError& error) {
    throw Error(error.kind(), {"save", saving.folder->string()}, error.what());
  }
}

}  // namespace

void prepare_saving(const SavingSettings& saving) {
  if (!saving.folder) return;
  check_hf_target(model_folder(saving));
  remove_unfinished_checkpoints(*saving.folder);
}

TrainingRun::TrainingRun(const RunSettings& settings, Trainer& trainer)
    : saving_(settings.saving),
      evaluation_(settings.evaluation),
      trainer_(trainer),
      length_(run_length(settings, trainer.steps_per_epoch())) {}

bool TrainingRun::finished() const {
  const std::int64_t step = trainer_.steps_done();
  if (step >= length_.steps) return true;
  return trainer_.last_loss() && length_.ends(step, *trainer_.last_loss(), trainer_.first_loss());
}

StepReport TrainingRun::step() {
  StepReport report = trainer_.step();
  last_loss_ = report.loss;
  return report;
}

std::optional<Evaluation> TrainingRun::evaluate_if_due(const std::function<bool()>& stop) {
  const std::int64_t interval = evaluation_.interval.value_or(trainer_.steps_per_epoch());
  if (trainer_.steps_done() % interval != 0 || finished()) return std::nullopt;
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

void TrainingRun::save_if_due() {
  if (saving_.interval && trainer_.steps_done() % *saving_.interval == 0 && !finished()) checkpoint();
}

void TrainingRun::save_last() {
  if (saving_.folder && trainer_.steps_done() > saved_step_) checkpoint();
}

void TrainingRun::save_model() {
  if (saving_.folder) save(saving_, [&] { trainer_.save_model(model_folder(saving_)); });
}

void TrainingRun::checkpoint() {
  save(saving_, [&] { trainer_.save_checkpoint(*saving_.folder); });
  saved_step_ = trainer_.steps_done();
  if (saving_.keep) remove_old_checkpoints(*saving_.folder, saved_step_, *saving_.keep);
}

}  // namespace pipetrain
