// OptimizerStorage keeps the numbers of a parameter group that the optimizer needs from step to step: the weights that it
// updates, its states, and the copy of the weights that operations read. They are on the device (ResidentOptimizer), or some of
// them are outside of it (OffloadedOptimizer); which elements of the group they are is up to StatePlaces.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/tensor.hpp"
#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe but for write(). A state is `weights_state` or one of Optimizer::states(); its
// elements count from the begin of the state's array. A state that the optimizer lacks is an Error(input).
class OptimizerStorage {
 public:
  virtual ~OptimizerStorage() = default;
  OptimizerStorage(const OptimizerStorage&) = delete;
  OptimizerStorage& operator=(const OptimizerStorage&) = delete;

  // The weights that operations read, or from which replicas gather them; without memory where they are outside of the device.
  virtual Tensor operands() const = 0;
  // The first element of a state on the device; null where the state is outside of it.
  virtual float* on_device(const std::string& state) const = 0;

  // Waits for the device. begin_writing() comes before a state's first write(); different elements may be written on several
  // threads at once.
  virtual void read(const std::string& state, std::size_t begin, float* values, std::size_t count) = 0;
  virtual void begin_writing(const std::string& state) = 0;
  virtual void write(const std::string& state, std::size_t begin, const float* values, std::size_t count) = 0;
  // Rounds the weights to the copy that operations read, where there is one. Only enqueues, as what follows does.
  virtual void round_weights() = 0;

  // Before the first action of a step of training.
  virtual void begin_step() = 0;
  // Writes to operands() the weights that step() would make, and nothing else.
  virtual void preview(const Tensor& grads, const OptimizerStep& step) = 0;
  // Called in the order of units: before something of the unit is enqueued, perhaps several times; and for every unit, once all
  // of it has been.
  struct Listener {
    std::function<void(std::size_t unit)> steps, stepped;
  };
  virtual void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) = 0;

 protected:
  OptimizerStorage() = default;
};

}  // namespace pipetrain
