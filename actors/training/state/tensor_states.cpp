#include "actors/training/state/tensor_states.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

std::size_t elements_of(const Shape& shape) { return static_cast<std::size_t>(shape.elements()); }

// shape: of the state, as the model's tensor has it.
TensorStates::State state_of(const WholeTensor& tensor, const Shape& shape) {
  TensorStates::State state;
  const Parameter& parameter = tensor.parameter;
  state.as_weight = shape == parameter.full;
  state.shape = state.as_weight ? parameter.local : shape;
  if (!state.exists() || (state.as_weight && tensor.is_split)) return state;
  Parameter own = parameter;
  if (!state.as_weight) {
    own.full = own.local = shape;
    own.transposed = false;
  }
  state.tensor = std::make_shared<const Parameter>(std::move(own));
  return state;
}

}  // namespace

TensorStates::TensorStates(const Optimizer& optimizer, const StatePlaces& places, bool previews)
    : lengths_(optimizer.states().size(), 0) {
  std::map<std::size_t, WholeTensor> by_slice;
  for (WholeTensor& tensor : whole_tensors(places.layout())) by_slice.emplace(tensor.first_slice, std::move(tensor));
  for (const auto& unit : places.held_places()) {
    auto& own = places_.emplace_back();
    for (const HeldPlace& held : unit) {
      const auto found = by_slice.find(held.part.parameter);
      if (found == by_slice.end()) continue;  // a later slice of a tensor
      Place& place = own.emplace_back(Place{found->second, held.weight, held.grad, held.rounded, {}});
      add_states(optimizer, previews, place);
    }
  }
}

void TensorStates::add_states(const Optimizer& optimizer, bool previews, Place& place) {
  const SteppedTensor tensor = stepped_tensor(place.tensor.parameter);
  const std::size_t all = elements_of(tensor.shape);
  std::size_t copies = 2 * align_elements(all);  // of the weight and its gradient
  for (const Shape& shape : optimizer.state_shapes(tensor)) {
    State& state = place.states.emplace_back(state_of(place.tensor, shape));
    std::size_t& length = lengths_[place.states.size() - 1];
    state.begin = length;
    if (!state.exists()) continue;
    length += align_elements(state.as_weight ? place.tensor.held : elements_of(state.shape));
    copies += align_elements(elements_of(state.shape));
  }
  const auto rule = optimizer.tensor_rule({}, tensor);
  if (!rule) return;
  const bool copied = previews || place.tensor.is_split;
  scratch_ = std::max(scratch_, (copied ? copies : 0) + tensor_scratch(*rule, place.tensor.parameter.local));
}

std::size_t TensorStates::bytes() const {
  return (std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0}) + scratch_) * sizeof(float);
}

std::vector<TensorStates::Part> TensorStates::parts(std::size_t state, const ParameterLayout& layout) const {
  std::vector<Part> parts;
  for (const auto& unit : places_) {
    for (const Place& place : unit) {
      const State& own = place.states[state];
      if (!own.exists()) continue;
      const WholeTensor& tensor = place.tensor;
      if (own.tensor) {
        const HeldPart all{.parameter = tensor.first_slice, .begin = 0, .end = elements_of(own.shape)};
        parts.push_back({all, own.begin, own.tensor});
        continue;
      }
      std::size_t begin = own.begin;
      for (std::size_t i = tensor.first_slice; i < tensor.first_slice + tensor.slices; ++i) {
        const std::size_t elements = elements_of(layout.parameters[i].local);
        parts.push_back({{.parameter = i, .begin = 0, .end = elements}, begin, nullptr});
        begin += elements;
      }
    }
  }
  return parts;
}

}  // namespace pipetrain
