// Turns the options of a run into the job that a Trainer runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/training/job/train_job.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "apps/options/train_options.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/processes/joined_run.hpp"

namespace pipetrain {

// Begins to hear the notice of a preemption. Joins this process with the others of its run, and waits for all of them; null if
// it is alone, and for a dry run. Throws Error.
std::unique_ptr<JoinedRun> join_run(const TrainOptions& options);

// The locks that process 0 holds against other runs until the run has ended.
struct RunLocks {
  std::unique_ptr<OutputLock> save;                 // null if nothing is saved
  std::vector<std::unique_ptr<OutputLock>> others;  // on records that are replaced whole, and on folders of them
};

// Locks the outputs of the run, and puts back a checkpoint that was being replaced when its run ended. Throws Error; adds to
// `notes`.
void take_outputs(const TrainOptions& options, RunLocks& locks, std::vector<std::string>& notes);

// Opens the job of a single process, or of one that has joined others (`joined`, else null): then all of them return,
// or all throw. Process 0 first locks the outputs of the run. Throws Error; adds to `notes`. before: for a single process.
TrainJob open_job(const TrainOptions& options, JoinedRun* joined, RunLocks& locks, std::vector<std::string>& notes,
                  const RunBefore& before = {});

}  // namespace pipetrain
