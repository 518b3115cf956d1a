// The weights that a rank's operations read where the data-parallel replicas divide what they keep of them.
#pragma once

#include <cstddef>

#include "core/device.hpp"
#include "core/process_group.hpp"
#include "model/parameter_store.hpp"
#include "model/shard_units.hpp"
#include "schedules/plan.hpp"

namespace pipetrain {

class DividedParameters : public ParameterStore {
 public:
  struct Setup {
    const ParameterLayout& layout;
    const std::vector<ShardUnit>& units;
    Device& device;
    Stream& compute;   // of the rank
    Stream& transfer;  // carries what goes between replicas
    Group& replicas;
  };

  // Before a step's first action. Every replica must take the same steps.
  virtual void begin_step(schedules::StepKind kind) = 0;
  // The runs of this unit that this rank owns have new values once what `compute` holds so far has run: after loading
  // (loaded()), or in the optimizer's step, in which every replica publishes the same units in the same order.
  virtual void publish(std::size_t unit) = 0;
  virtual void loaded() = 0;
  // While it is set, weights are in their places without being gathered, for a rank that rehearses alone.
  virtual void set_rehearsing(bool rehearsing) = 0;
  // Weights that are always there, of which the first is a parameter's: what `compute` holds from now on sees them.
  virtual Tensor settled() = 0;
};

}  // namespace pipetrain
