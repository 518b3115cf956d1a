// Weights that come to where operations read them step by step: from other replicas, or from outside of the device.
#pragma once

#include <cstddef>

#include "model/parameters/parameter_store.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain {

class StepParameters : public ParameterStore {
 public:
  // Before a step's first action. Every replica must take the same steps.
  virtual void begin_step(schedules::StepKind kind) = 0;
  // What this rank keeps of this unit (model/parameters/shard_units.hpp) has new values once what was enqueued so far has run:
  // after loading (loaded()), or in the optimizer's step, in which every replica publishes the same units in the same order.
  virtual void publish(std::size_t unit) = 0;
  virtual void loaded() = 0;
  // While it is set, weights are in their places without being brought there, for a rank that rehearses alone.
  virtual void set_rehearsing(bool rehearsing) = 0;
  // Weights that are always there, of which the first is a parameter's: what the rank's stream holds from now on sees them.
  virtual Tensor settled() = 0;
};

}  // namespace pipetrain
