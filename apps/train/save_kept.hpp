// Saves the states of a run that fails while its layout changes.
#pragma once

#include <memory>

#include "actors/training/checkpoint/kept_states.hpp"
#include "apps/options/train_options.hpp"
#include "apps/train/open_job.hpp"

namespace pipetrain {

// Writes a checkpoint of the states that are held from before a change of the layout, after which the run has failed. kept: may
// be null.
void save_kept(const std::shared_ptr<KeptStates>& kept, const TrainOptions& options, const RunLocks& locks) noexcept;

}  // namespace pipetrain
