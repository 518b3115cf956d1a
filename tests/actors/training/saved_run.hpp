// Runs that end with a checkpoint, and runs that continue from it.
#pragma once

#include <filesystem>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/run/trainer.hpp"

namespace pipetrain::test {

inline TrainJob continued_job(const std::filesystem::path& checkpoint, TrainJob job) {
  const CheckpointManifest manifest = verify_checkpoint(checkpoint);
  job.initial = open_checkpoint(checkpoint, manifest, job.config);
  job.steps_done = manifest.state.step;
  job.first_loss = manifest.state.first_loss;
  job.last_loss = manifest.state.last_loss;
  return job;
}

inline std::filesystem::path saved_after(const TrainJob& job, int steps, const std::filesystem::path& folder) {
  Trainer trainer(job);
  for (int step = 0; step < steps; ++step) trainer.step();
  trainer.start_checkpoint(folder).get();
  return checkpoint_path(folder, steps);
}

}  // namespace pipetrain::test
