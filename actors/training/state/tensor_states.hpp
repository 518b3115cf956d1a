// The places of the states of an optimizer that steps whole tensors. Each state has an array of its own, in which the tensors
// that have the state follow one another, each in the state's own shape.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/places/state_places.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/parameters/whole_tensors.hpp"

namespace pipetrain {

// Immutable, hence thread-safe.
class TensorStates {
 public:
  // Throws what whole_tensors() throws.
  TensorStates(const Optimizer& optimizer, const StatePlaces& places);

  // A state of a tensor.
  struct State {
    std::size_t begin = 0;                   // in the state's array
    std::shared_ptr<const Parameter> shape;  // the state as a tensor, under the parameter's name; null: it has no such state
  };
  // A tensor that this rank holds.
  struct Place {
    Parameter parameter;
    std::size_t slice = 0;  // the first, in ParameterLayout::parameters
    std::size_t weight = 0, grad = 0, rounded = 0;
    std::vector<State> states;  // as Optimizer::states()
  };
  const std::vector<std::vector<Place>>& by_unit() const { return places_; }
  // Returns the length of each state's array, in elements.
  const std::vector<std::size_t>& lengths() const { return lengths_; }
  // Returns the elements of scratch memory that the largest update takes.
  std::size_t scratch() const { return scratch_; }
  std::size_t bytes() const;  // of all arrays, with the scratch memory

 private:
  void add_states(const Optimizer& optimizer, Place& place);

  std::vector<std::vector<Place>> places_;
  std::vector<std::size_t> lengths_;
  std::size_t scratch_ = 0;
};

}  // namespace pipetrain
