#include "actors/training/state/tensor_states.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

// Returns the state as a tensor of its own, or laid out like the parameter if it has its shape.
std::shared_ptr<const Parameter> state_as_tensor(const Parameter& parameter, const Shape& shape) {
  Parameter own = parameter;
  if (!(shape == parameter.full)) {
    own.full = own.local = shape;
    own.transposed = false;
  }
  return std::make_shared<const Parameter>(std::move(own));
}

}  // namespace

TensorStates::TensorStates(const Optimizer& optimizer, const StatePlaces& places) : lengths_(optimizer.states().size(), 0) {
  std::map<std::size_t, const WholeTensor*> by_slice;
  const std::vector<WholeTensor> tensors = whole_tensors(places.layout());
  for (const WholeTensor& tensor : tensors) by_slice[tensor.first_slice] = &tensor;
  for (const auto& unit : places.held_places()) {
    auto& own = places_.emplace_back();
    for (const HeldPlace& held : unit) {
      const auto found = by_slice.find(held.part.parameter);
      if (found == by_slice.end()) continue;  // a later slice of a tensor
      Place& place = own.emplace_back(Place{found->second->parameter, held.part.parameter, held.weight, held.grad, held.rounded, {}});
      add_states(optimizer, place);
    }
  }
}

void TensorStates::add_states(const Optimizer& optimizer, Place& place) {
  const SteppedTensor tensor = stepped_tensor(place.parameter);
  const std::vector<Shape> shapes = optimizer.state_shapes(tensor);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    State& state = place.states.emplace_back();
    if (shapes[i].elements() == 0) continue;
    state = {lengths_[i], state_as_tensor(place.parameter, shapes[i])};
    lengths_[i] += align_elements(static_cast<std::size_t>(shapes[i].elements()));
  }
  if (const auto rule = optimizer.tensor_rule({}, tensor)) scratch_ = std::max(scratch_, tensor_scratch(*rule, place.parameter.local));
}

std::size_t TensorStates::bytes() const {
  return (std::accumulate(lengths_.begin(), lengths_.end(), std::size_t{0}) + scratch_) * sizeof(float);
}

}  // namespace pipetrain
