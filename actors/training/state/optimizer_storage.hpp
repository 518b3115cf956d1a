// OptimizerStorage keeps the data that the optimizer of a parameter group needs between steps: the weights that it updates, its
// states, and the copy of the weights that operations read. All of it is on the device (ResidentOptimizer), or some of it
// outside (OffloadedOptimizer). StatePlaces determines which elements of the group a rank keeps.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "core/tensor.hpp"
#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe except write(). A state is `weights_state` or one of Optimizer::states();
// its elements count from the beginning of the state's array. A state that the optimizer lacks is an Error(input).
class OptimizerStorage {
 public:
  virtual ~OptimizerStorage() = default;
  OptimizerStorage(const OptimizerStorage&) = delete;
  OptimizerStorage& operator=(const OptimizerStorage&) = delete;

  // Returns the weights that operations read, or that replicas gather; without memory where they are outside of the device.
  virtual Tensor operands() const = 0;
  // Returns the first element of a state on the device; null where the state is outside of it.
  virtual float* on_device(const std::string& state) const = 0;

  // Waits for the device. Call begin_writing() before a state's first write(); different elements may be written on
  // several threads at once.
  virtual void read(const std::string& state, std::size_t begin, float* values, std::size_t count) = 0;
  virtual void begin_writing(const std::string& state) = 0;
  virtual void write(const std::string& state, std::size_t begin, const float* values, std::size_t count) = 0;
  // Rounds the weights to the copy that operations read, if there is one. This and the following only enqueue.
  virtual void round_weights() = 0;

  // Called before the first action of a training step.
  virtual void begin_step() = 0;
  // Writes the weights that step() would make to operands(), and changes nothing else.
  virtual void preview(const Tensor& grads, const OptimizerStep& step) = 0;
  // Called in the order of units: `steps` before a part of the unit is enqueued, perhaps several times; `stepped` once
  // for every unit, when all of it has been enqueued.
  struct Listener {
    std::function<void(std::size_t unit)> steps, stepped;
  };
  virtual void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) = 0;

 protected:
  OptimizerStorage() = default;
};

}  // namespace pipetrain
