#include "apps/train/open_job.hpp"

#include <utility>

#include "actors/training/checkpoint.hpp"
#include "actors/training/train_job.hpp"

namespace pipetrain {

namespace {

// Before a checkpoint to go on from is looked for there.
void take_folder(const SavingSettings& saving, std::optional<SaveLock>& lock, std::vector<std::string>& notes) {
  if (!saving.folder) return;
  lock.emplace(*saving.folder, notes);
  restore_replaced_checkpoints(*saving.folder);
}

}  // namespace

TrainJob open_job(const TrainOptions& options, JoinedRun* joined, std::optional<SaveLock>& lock,
                  std::vector<std::string>& notes) {
  std::optional<TrainJob> job;
  const auto take = [&] {
    if (!options.dry_run) take_folder(options.run.saving, lock, notes);
  };
  const auto open = [&] { job = make_train_job(options.run, notes); };
  placing_errors(options.places, [&] {
    joined ? joined->in_first("folder", take) : take();
    joined ? joined->together("job", open) : open();
  });
  if (joined) job->processes = joined->processes();
  return std::move(*job);
}

}  // namespace pipetrain
