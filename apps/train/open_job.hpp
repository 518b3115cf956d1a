// From the options of a run to what a Trainer runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/training/job/train_job.hpp"
#include "apps/options/train_options.hpp"
#include "apps/output/output_lock.hpp"
#include "apps/processes/joined_run.hpp"

namespace pipetrain {

// The process among those of its run, which all have joined; null where it is alone, and for a dry run. Throws Error.
std::unique_ptr<JoinedRun> join_run(const TrainOptions& options);

// What process 0 holds against other runs until the run has ended.
struct RunLocks {
  std::unique_ptr<OutputLock> save;                 // null where nothing is saved
  std::vector<std::unique_ptr<OutputLock>> others;  // of records that are replaced whole, and of folders of them
};

// The job of this process alone, or of one that has joined others (`joined`, else null): then all of them return, or all throw.
// Process 0 first takes the places that the run writes to. Throws Error; adds to `notes`.
TrainJob open_job(const TrainOptions& options, JoinedRun* joined, RunLocks& locks, std::vector<std::string>& notes);

}  // namespace pipetrain
