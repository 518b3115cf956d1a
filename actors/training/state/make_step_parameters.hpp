// Makes the StepParameters that suit the memory in which weights are kept.
#pragma once

#include <memory>
#include <optional>

#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/state/step_parameters.hpp"

namespace pipetrain {

struct WeightMemory {
  const StatePlaces& places;
  std::optional<Replicas> replicas = {};  // where replicas divide the weights
  Tensor operands = {};                   // the weights that are on the device: see OptimizerStorage
  OffloadedArray* outside = nullptr;      // the weights outside of the device; null: all are on it
  int prefetch = 1;
};

// All arguments must outlive it. Throws Error(out_of_memory).
std::unique_ptr<StepParameters> make_step_parameters(const StepParameters::Setup& setup, const WeightMemory& where);

}  // namespace pipetrain
