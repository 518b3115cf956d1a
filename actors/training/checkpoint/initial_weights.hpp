// Opens the weights with which a new run begins.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/training/job/train_job.hpp"

namespace pipetrain {

// Returns the weights of the model without adapters: those of its files, or random ones. Throws Error(input).
std::shared_ptr<const WeightSource> base_weights(const ModelSettings& model, std::vector<std::string>& notes,
                                                 const TrainJob& job);
// Returns the same with the adapters of a run, if it has any: those of a folder, or new ones, which are drawn. Whatever else is
// trained begins as the folder has it, or as the base. Throws Error(input).
std::shared_ptr<const WeightSource> with_initial_adapter(const ModelSettings& model, const TrainJob& job,
                                                         std::shared_ptr<const WeightSource> base);

}  // namespace pipetrain
