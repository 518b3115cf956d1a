// Opens the model, the data and the weights that a run's settings name.
#pragma once

#include <string>
#include <vector>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Throws Error(input), with the setting where there is one, for a wrong model or wrong data, for combinations that do
// not work, and for what resume.hpp refuses. Adds a line to `notes` for each thing that the user should know, such as a
// damaged checkpoint that was passed over.
TrainJob make_train_job(const RunSettings& settings, std::vector<std::string>& notes);

}  // namespace pipetrain
