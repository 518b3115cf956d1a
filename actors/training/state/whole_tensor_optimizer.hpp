// The optimizer's data of a parameter group whose tensors are stepped whole, one after the other, on the device. A tensor that
// tensor-parallel ranks divide is gathered with its gradient and states; each rank computes all of the step, and keeps its
// slices of the result.
#pragma once

#include "actors/training/state/resident_optimizer.hpp"
#include "actors/training/state/tensor_states.hpp"
#include "ops/tensor_parallel.hpp"

namespace pipetrain {

// A state's elements count from the beginning of its array in TensorStates.
class WholeTensorOptimizer final : public ResidentOptimizer {
 public:
  // states must outlive it, and so must the group. Also throws what ResidentOptimizer throws.
  WholeTensorOptimizer(const Setup& setup, const TensorStates& states, const TensorParallel& tp);

  void preview(const Tensor& grads, const OptimizerStep& step) override;
  void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) override;

 private:
  using Place = TensorStates::Place;
  struct Stepped {
    const Place& place;
    const OptimizerArenas& arenas;
    const OptimizerStep& step;
    bool is_preview;
  };
  void check_slices(const Place& place) const;
  void step_tensor(const Stepped& of);
  void step_elements(const Stepped& of);
  void step_copies(const Stepped& of, TensorUpdateArgs args);

  // Copies the rank's slices, which begin at this element, into the tensor, or zeros and those that no other rank copies.
  void insert(const Place& place, const Tensor& arena, std::size_t begin, const Tensor& full);
  // Copies them back, rounded if the arena has fewer bits.
  void extract(const Place& place, const Tensor& full, const Tensor& arena, std::size_t begin);

  const TensorStates& states_;
  TensorParallel tp_;
  Tensor scratch_;
};

}  // namespace pipetrain
