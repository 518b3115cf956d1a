// The places of the states of an optimizer that steps whole tensors. Each state has an array of its own, in which the tensors
// that have the state follow one another. A state in the shape of the tensor is stored like the rank's slices of it; one in a
// shape of its own is whole on every rank.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "actors/training/places/state_places.hpp"
#include "model/optimizer/optimizer.hpp"
#include "model/parameters/whole_tensors.hpp"

namespace pipetrain {

// Immutable, hence thread-safe.
class TensorStates {
 public:
  // previews: steps are previewed, which takes copies of a tensor. Throws what whole_tensors() throws.
  TensorStates(const Optimizer& optimizer, const StatePlaces& places, bool previews);

  // A state of a tensor.
  struct State {
    std::size_t begin = 0;   // in the state's array
    Shape shape{0};          // of all of it, as stored; without elements: the tensor has no such state
    bool as_weight = false;  // it is stored like the slices of the weight
    // The state as a tensor under the parameter's name; null where the rank holds only slices of it.
    std::shared_ptr<const Parameter> tensor = nullptr;

    bool exists() const { return shape.elements() > 0; }
  };
  // A tensor that this replica owns, and its first elements in the arenas, where its slices follow one another.
  struct Place {
    WholeTensor tensor;
    std::size_t weight = 0, grad = 0, rounded = 0;
    std::vector<State> states;  // as Optimizer::states()
  };
  const std::vector<std::vector<Place>>& by_unit() const { return places_; }
  // Returns the length of each state's array, in elements.
  const std::vector<std::size_t>& lengths() const { return lengths_; }
  // Returns the elements of scratch memory that the largest update takes.
  std::size_t scratch() const { return scratch_; }
  std::size_t bytes() const;  // of all arrays, with the scratch memory

  // A part of a state: of one slice, or a whole tensor of its own.
  struct Part {
    HeldPart held;
    std::size_t begin = 0;  // in the state's array
    std::shared_ptr<const Parameter> own;
  };
  // state: its number. layout: the one of the places.
  std::vector<Part> parts(std::size_t state, const ParameterLayout& layout) const;

 private:
  void add_states(const Optimizer& optimizer, bool previews, Place& place);

  std::vector<std::vector<Place>> places_;
  std::vector<std::size_t> lengths_;
  std::size_t scratch_ = 0;
};

}  // namespace pipetrain
