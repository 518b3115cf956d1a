// The optimizer's data of a parameter group whose tensors are stepped whole, one after the other, on the device.
#pragma once

#include <string>
#include <vector>

#include "actors/training/state/resident_optimizer.hpp"
#include "actors/training/state/tensor_states.hpp"

namespace pipetrain {

// A state's elements count from the beginning of its array in TensorStates.
class WholeTensorOptimizer final : public ResidentOptimizer {
 public:
  // states must outlive it. Also throws what ResidentOptimizer throws.
  WholeTensorOptimizer(const Setup& setup, const TensorStates& states);

  void preview(const Tensor& grads, const OptimizerStep& step) override;
  void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) override;

 private:
  void step_tensor(const TensorStates::Place& place, const OptimizerArenas& arenas, const OptimizerStep& step);

  const TensorStates& states_;
  Tensor scratch_;
};

}  // namespace pipetrain
