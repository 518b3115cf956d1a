// Sets the checkpoint that a run continues from, and checks the folder that it saves to: SavingSettings.
#pragma once

#include <string>
#include <vector>

#include "actors/training/job/run_length.hpp"
#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Refuses a folder in which checkpoints of two runs would be mixed up. Throws Error(input) when the folder holds checkpoints
// and this run does not continue from the newest of them; the error says whether they are this run's and it has finished.
void refuse_used_folder(const SavingSettings& saving, const TrainJob& job, const RunLength& length);

// Sets the job's initial state, steps done and losses. The first of these that is given is the source:
// - the states that the job's `kept` holds, which never left the process, so that nothing is verified;
// - verified: that checkpoint, of which only names and shapes are checked here;
// - load: that checkpoint;
// - resume: the newest complete checkpoint of the folder; those passed over are listed in `notes`;
// - none, or an empty folder: the model's weights, or random ones.
// Verifies every byte of the checkpoint. Throws Error(input) when it is damaged or unreadable (with resume, when none
// of several is usable, because a fresh start would replace what the run had saved), and when it is of another model or
// other data, because samples would then be repeated or left out.
void set_initial_state(const RunSettings& settings, std::vector<std::string>& notes, TrainJob& job);

}  // namespace pipetrain
