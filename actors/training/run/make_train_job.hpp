// Opens the model, the data and the weights that a run's settings name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Throws Error(input), with the setting where there is one, for a wrong model or wrong data, for combinations that do
// not work, and for what resume.hpp refuses. Adds a line to `notes` for each thing that the user should know, such as a
// damaged checkpoint that was passed over.
//
// `dataset`: the data of the run in place of that which the settings name; its order is that of the samples, so the
// settings must not shuffle it or split it. May be null.
TrainJob make_train_job(const RunSettings& settings, std::vector<std::string>& notes,
                        std::shared_ptr<const Dataset> dataset = nullptr);

// A layout of a run takes these over from the one before it in the same process.
struct RunBefore {
  std::shared_ptr<const Dataset> data, evaluation;  // null: they are opened
  std::shared_ptr<KeptStates> kept;                 // see TrainJob
};
// Does the same for the next layout, with the states that are held, if there are any.
TrainJob make_train_job(const RunSettings& settings, std::vector<std::string>& notes, const RunBefore& before);

}  // namespace pipetrain
