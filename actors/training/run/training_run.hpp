// A training run from its first step to its end: when it ends, and what it saves on the way.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>

#include "actors/training/job/run_length.hpp"
#include "actors/training/job/run_settings.hpp"
#include "actors/training/run/trainer.hpp"

namespace pipetrain {

// Removes from the folder that the run saves to what an earlier one left unfinished. Throws Error(input) where the model could
// not be put in its place at the end. Before the Trainer is made, which takes time.
void prepare_saving(const SavingSettings& saving);

// Not thread-safe. Without a folder nothing is saved. What cannot be saved is an Error about the setting "save".
class TrainingRun {
 public:
  // Both must outlive this. `check_folder` is called before anything is saved, and when saving has failed: it throws where the
  // folder is not this run's any more, and that is the failure then. May be null.
  TrainingRun(const RunSettings& settings, Trainer& trainer, std::function<void()> check_folder = nullptr);

  const RunLength& length() const { return length_; }
  // Also of a run that goes on from where it had ended.
  bool finished() const;
  // The next step. Throws RunFailed and StepLeft, see Trainer.
  StepReport step();
  // After a step that is not the last: the evaluation that is due with it, if any. See Trainer::evaluate().
  std::optional<Evaluation> evaluate_if_due(const std::function<bool()>& stop);
  // The same for the weights with which the run ends, where that has not been done.
  std::optional<Evaluation> evaluate_last(const std::function<bool()>& stop);
  // After a step: begins the checkpoint that is due with it, if any, which is written while training goes on; the one of the
  // last step is save_last()'s. Waits for the one before where that is still being written: returns for how long. Throws also
  // what one begun earlier has met since.
  std::chrono::duration<double> save_if_due();
  // A checkpoint of the last step, of a run that was stopped too, where none is there yet; on disk when it returns.
  void save_last();
  // The model as a Hugging Face folder; for a run that has finished.
  void save_model();

  // The loss of the last step of this run that had one.
  std::optional<double> last_loss() const { return last_loss_; }
  // How long the last checkpoint that is on disk took. Thread-safe.
  std::optional<std::chrono::duration<double>> save_time() const;
  std::int64_t redone_steps() const { return redone_steps_; }          // see StepReport::redone
  std::int64_t unlabelled_steps() const { return unlabelled_steps_; }  // which this run skipped because no label counts

 private:
  template <class Work>
  void save(const Work& work) const;
  void begin_checkpoint();
  void finish_checkpoint();
  bool another_follows() const;
  std::int64_t evaluation_interval() const;
  std::optional<Evaluation> evaluate(const std::function<bool()>& stop);

  const SavingSettings& settings_;
  const EvaluationSettings& evaluation_;
  Trainer& trainer_;
  std::function<void()> check_folder_;
  RunLength length_;
  std::optional<double> last_loss_;
  std::int64_t redone_steps_ = 0, unlabelled_steps_ = 0;
  std::int64_t evaluated_step_ = 0;
  std::atomic<double> save_seconds_{-1};  // below 0: nothing is known
  std::future<void> saving_;              // the checkpoint of saved_step_; its destructor waits
  std::int64_t saved_step_ = 0;           // none: before step 1 there is nothing to go on from
};

}  // namespace pipetrain
