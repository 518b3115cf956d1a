#include "actors/training/state/whole_tensor_optimizer.hpp"

#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

WholeTensorOptimizer::WholeTensorOptimizer(const Setup& setup, const TensorStates& states)
    : ResidentOptimizer(setup, states.lengths()), states_(states) {
  if (states.scratch() > 0) scratch_ = allocate(states.scratch(), DType::f32, "optimizer's scratch memory");
}

// combinations.cpp refuses the settings that preview steps.
void WholeTensorOptimizer::preview(const Tensor&, const OptimizerStep&) {
  throw Error(ErrorKind::internal, "an optimizer of whole tensors previews no step");
}

void WholeTensorOptimizer::step_tensor(const TensorStates::Place& place, const OptimizerArenas& arenas,
                                       const OptimizerStep& step) {
  const Parameter& parameter = place.parameter;
  const auto elements = static_cast<std::size_t>(parameter.local.elements());
  const Tensor weight = span(arenas.weights, place.weight, elements), grad = span(arenas.grads, place.grad, elements);
  const SteppedTensor tensor = stepped_tensor(parameter);
  std::vector<Tensor> states;
  for (std::size_t i = 0; i < place.states.size(); ++i) {
    const TensorStates::State& state = place.states[i];
    states.push_back({});
    if (!state.shape) continue;
    const Shape& shape = state.shape->local;
    states.back() = span(arenas.states[i], state.begin, static_cast<std::size_t>(shape.elements())).reshaped(shape);
  }
  if (const auto rule = setup().optimizer.tensor_rule(step, tensor)) {
    TensorUpdateArgs args{.weight = weight.reshaped(parameter.local),
                          .grad = grad.reshaped(parameter.local),
                          .transposed = parameter.transposed,
                          .scratch = scratch_,
                          .rule = *rule};
    std::copy(states.begin(), states.end(), args.states.begin());
    setup().ops.tensor_update(args);
    if (arenas.rounded.data != nullptr) setup().ops.round(weight, span(arenas.rounded, place.rounded, elements));
    return;
  }
  UpdateArgs args{.weight = weight, .grad = grad, .states = {}, .rule = setup().optimizer.rule(step, parameter.decays)};
  std::size_t next = 0;
  for (const Tensor& state : states)
    if (state.data != nullptr) args.states.at(next++) = state.reshaped({state.elements()});
  if (arenas.rounded.data != nullptr) args.rounded = span(arenas.rounded, place.rounded, elements);
  setup().ops.update(args);
}

void WholeTensorOptimizer::step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) {
  const OptimizerArenas own = arenas(grads);
  for (std::size_t unit = 0; unit < states_.by_unit().size(); ++unit) {
    listener.steps(unit);
    for (const TensorStates::Place& place : states_.by_unit()[unit]) step_tensor(place, own, step);
    listener.stepped(unit);
  }
}

}  // namespace pipetrain
