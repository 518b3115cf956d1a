// The weights that a rank's operations read where the data-parallel replicas divide what they keep of them.
#pragma once

#include "actors/training/state/step_parameters.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/parameters/shard_units.hpp"

namespace pipetrain {

class DividedParameters : public StepParameters {
 public:
  struct Setup {
    const ParameterLayout& layout;
    const std::vector<ShardUnit>& units;
    Device& device;
    Stream& compute;   // of the rank
    Stream& transfer;  // carries what goes between replicas
    Group& replicas;
  };
};

}  // namespace pipetrain
