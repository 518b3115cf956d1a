// What a run goes on from, and which folders it may save to: SavingSettings.
#pragma once

#include <string>
#include <vector>

#include "actors/training/job/run_length.hpp"
#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Checkpoints of two runs in one folder would be mixed up, the older run's taken for this one's. Throws Error(input) when
// the folder holds checkpoints and this run does not go on from the newest of them; says whether they are this run's, and it
// has finished.
void refuse_used_folder(const SavingSettings& saving, const TrainJob& job, const RunLength& length);

// Sets the job's initial state, steps done and losses, from
// - verified: that checkpoint, of which only names and places are looked at here;
// - load: that checkpoint;
// - resume: the newest checkpoint of the folder that is whole; those passed over are told in `notes`;
// - else, or when the folder holds none: the model's weights, or random ones.
// Every byte of the checkpoint is verified. Throws Error(input) when it is damaged or cannot be read, on resume when none of
// several can: starting afresh would replace what the run had saved. Also when it is of another model or other data: the next
// samples would repeat some and leave out others.
void set_initial_state(const RunSettings& settings, std::vector<std::string>& notes, TrainJob& job);

}  // namespace pipetrain
