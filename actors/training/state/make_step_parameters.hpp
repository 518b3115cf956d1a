// Chooses where the weights that operations read lie, and what brings them.
#pragma once

#include <memory>
#include <optional>

#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/state/state_places.hpp"
#include "actors/training/state/step_parameters.hpp"

namespace pipetrain {

struct WeightPlaces {
  const StatePlaces& places;
  std::optional<Replicas> replicas = {};  // where they divide the weights
  Tensor operands = {};                   // the weights that are on the device: see OptimizerStorage
  OffloadedArray* outside = nullptr;      // the weights that are not; null: all are on the device
  int prefetch = 1;
};

// Everything outlives it. Throws Error(out_of_memory).
std::unique_ptr<StepParameters> make_step_parameters(const StepParameters::Setup& setup, const WeightPlaces& where);

}  // namespace pipetrain
