// What a user of ZeRO should know of a job before it runs.
#pragma once

#include <optional>
#include <string>

namespace pipetrain {

struct TrainJob;

// Where dividing gradients (stage 2 and 3) saves nothing in this job, because in its plan all of them live to the end of the
// step: a line that says so. The job has its plan.
std::optional<std::string> undivided_gradients_note(const TrainJob& job);

}  // namespace pipetrain
