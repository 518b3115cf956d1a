// Opens the model, the data and the weights that a run's settings name.
#pragma once

#include <string>
#include <vector>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Throws Error(input) for a model or data that is wrong, or that do not go together, and for what resume.hpp refuses, with the
// setting where there is one. What a user should know of, such as a damaged checkpoint that was passed over, is added to
// `notes`, a line each.
TrainJob make_train_job(const RunSettings& settings, std::vector<std::string>& notes);

}  // namespace pipetrain
