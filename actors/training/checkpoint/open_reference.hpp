// Opens the model that a loss of preferences compares with.
#pragma once

#include <memory>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Returns the reference that the settings ask for: a stored model, or else the model as its training began. New adapters are
// left out; those of a folder, with which a run goes on, belong to the model.
ReferenceModel reference_model(const RunSettings& settings);
// The job's initial state must be set. Throws Error(input) where the folder cannot be read or has a model of another shape.
std::shared_ptr<const WeightSource> open_reference(const RunSettings& settings, const TrainJob& job);

}  // namespace pipetrain
