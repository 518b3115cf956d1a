// A training run from its first step to its end: decides when it ends, and what it saves on the way.
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

// Removes unfinished files of an earlier run from the folder that the run saves to. Throws Error(input) where the final
// model could not be moved into place. Call it before making the Trainer, which takes time.
void prepare_saving(const SavingSettings& saving);

// Not thread-safe. Without a folder nothing is saved. A failure to save is an Error about the setting "save".
class TrainingRun {
 public:
  // Both must outlive this. `check_folder` is called before anything is saved, and when saving has failed; it throws
  // where the folder no longer belongs to this run, and that is then the failure. May be null.
  TrainingRun(const RunSettings& settings, Trainer& trainer, std::function<void()> check_folder = nullptr);

  const RunLength& length() const { return length_; }
  // True also for a run that continues from its own end.
  bool finished() const;
  // Runs the next step. Throws RunFailed and StepLeft, see Trainer.
  StepReport step();
  // After a step that is not the last: runs the evaluation that is due, if any. See Trainer::evaluate().
  std::optional<Evaluation> evaluate_if_due(const std::function<bool()>& stop);
  // Evaluates the final weights, unless that has been done.
  std::optional<Evaluation> evaluate_last(const std::function<bool()>& stop);
  // After a step: begins the checkpoint that is due, if any, and writes it while training goes on; save_last() writes
  // that of the last step. Waits while the previous checkpoint is still being written, and returns how long. Also
  // throws a failure of that one.
  std::chrono::duration<double> save_if_due();
  // Writes a checkpoint of the last step, also of a run that was stopped, unless there is one; on disk when it returns.
  void save_last();
  // Between steps of an elastic run: Trainer::copy_states(), once the checkpoint that is being written is on disk.
  void copy_states();
  // After the last step in a layout: Trainer::keep_states(), once the checkpoint that is being written is on disk.
  void keep_states();
  // Writes the model as a Hugging Face folder, for a run that has finished.
  void save_model();

  // Returns the loss of this run's last step that had one.
  std::optional<double> last_loss() const { return last_loss_; }
  // Returns the time that the last checkpoint on disk took. Thread-safe.
  std::optional<std::chrono::duration<double>> save_time() const;
  std::int64_t redone_steps() const { return redone_steps_; }          // see StepReport::redone
  std::int64_t unlabelled_steps() const { return unlabelled_steps_; }  // steps that this run skipped because no label counts

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
  std::atomic<double> save_seconds_{-1};  // below 0: not known
  std::future<void> saving_;              // the checkpoint of saved_step_; its destructor waits
  int saving_membership_ = 0;             // that began it
  std::int64_t saved_step_ = 0;           // 0: none, because before step 1 there is nothing to continue from
};

}  // namespace pipetrain
