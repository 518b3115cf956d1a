// Makes the StepParameters that suit the memory in which weights are kept.
#pragma once

#include <memory>
#include <optional>

#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/places/state_places.hpp"
#include "actors/training/state/step_parameters.hpp"
#include "comm/compressed/block_code.hpp"

namespace pipetrain {

struct WeightMemory {
  const StatePlaces& places;
  std::optional<Replicas> replicas = {};  // where replicas divide the weights
  Tensor operands = {};                   // the weights that are on the device: see OptimizerStorage
  OffloadedArray* outside = nullptr;      // the weights outside of the device; null: all are on it
  // The code in which replicas gather matrices, and their group; none: in full.
  struct Code {
    BlockCode code = BlockCode::none;
    std::shared_ptr<Group> replicas = {};
  };
  Code code = {};
  int prefetch = 1;
};

// All arguments must outlive it. Throws Error(out_of_memory).
std::unique_ptr<StepParameters> make_step_parameters(const StepParameters::Setup& setup, const WeightMemory& where);

}  // namespace pipetrain
