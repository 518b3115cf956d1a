#include "actors/training/state/whole_tensor_optimizer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {
namespace {

// Memory that is handed out from the beginning.
class ScratchParts {
 public:
  explicit ScratchParts(const Tensor& scratch) : scratch_(scratch) {}

  Tensor take(const Shape& shape) {
    const std::size_t begin = used_;
    const auto elements = static_cast<std::size_t>(shape.elements());
    used_ += align_elements(elements);
    return span(scratch_, begin, elements).reshaped(shape);
  }
  Tensor taken() const { return span(scratch_, 0, used_); }
  Tensor rest() const { return scratch_.row_range(static_cast<std::int64_t>(used_), scratch_.rows()); }

 private:
  Tensor scratch_;
  std::size_t used_ = 0;
};

// The slice's place in the stored tensor: its first row or column.
struct SlicePlace {
  bool of_columns = false;
  std::int64_t begin = 0;

  explicit SlicePlace(const Parameter& slice) {
    if (slice.split_axis < 0) return;
    of_columns = (slice.split_axis == 1) != slice.transposed;
    begin = slice.begin;
  }
};

}  // namespace

WholeTensorOptimizer::WholeTensorOptimizer(const Setup& setup, const TensorStates& states, const TensorParallel& tp)
    : ResidentOptimizer(setup, states.lengths()), states_(states), tp_(tp) {
  for (const auto& unit : states.by_unit())
    for (const Place& place : unit) check_slices(place);
  if (states.scratch() > 0) scratch_ = allocate(states.scratch(), DType::f32, "optimizer's scratch memory");
}

// All ranks must hold a part of a tensor that they gather.
void WholeTensorOptimizer::check_slices(const Place& place) const {
  const Parameter& slice = setup().places.layout().parameters[place.tensor.first_slice];
  if (!place.tensor.is_split || !setup().optimizer.tensor_rule({}, stepped_tensor(slice))) return;
  if (slice.full[slice.split_axis] < tp_.size())
    throw Error(ErrorKind::input, {"tp", std::to_string(tp_.size())},
                "the optimizer steps whole tensors, and " + slice.name + " has fewer rows than devices; use fewer");
}

void WholeTensorOptimizer::insert(const Place& place, const Tensor& arena, std::size_t begin, const Tensor& full) {
  Ops& ops = setup().ops;
  if (!place.tensor.is_split) return ops.copy(span(arena, begin, place.tensor.held), full);
  ops.zero(full);
  for (std::size_t i = 0; i < place.tensor.slices; ++i) {
    const Parameter& slice = setup().places.layout().parameters[place.tensor.first_slice + i];
    const auto elements = static_cast<std::size_t>(slice.local.elements());
    const Tensor own = span(arena, begin, elements).reshaped(slice.local);
    begin += elements;
    if (slice.copy > 0) continue;
    const SlicePlace to(slice);
    if (to.of_columns) {
      ops.copy_columns({.source = own, .target = full, .target_begin = to.begin, .count = own.cols()});
    } else {
      ops.copy(own, full.row_range(to.begin, to.begin + own.rows()));
    }
  }
}

void WholeTensorOptimizer::extract(const Place& place, const Tensor& full, const Tensor& arena, std::size_t begin) {
  for (std::size_t i = 0; i < place.tensor.slices; ++i) {
    const Parameter& slice = setup().places.layout().parameters[place.tensor.first_slice + i];
    const auto elements = static_cast<std::size_t>(slice.local.elements());
    const Tensor own = span(arena, begin, elements).reshaped(slice.local);
    begin += elements;
    const SlicePlace from(slice);
    if (from.of_columns) {
      setup().ops.copy_columns({.source = full, .source_begin = from.begin, .target = own, .count = own.cols()});
    } else {
      setup().ops.round(full.row_range(from.begin, from.begin + own.rows()), own);
    }
  }
}

void WholeTensorOptimizer::step_copies(const Stepped& of, TensorUpdateArgs args) {
  const auto& [place, arenas, step, is_preview] = of;
  ScratchParts parts(scratch_);
  const auto copied = [&](const Tensor& arena, std::size_t begin, const Shape& shape) {
    const Tensor full = parts.take(shape);
    insert(place, arena, begin, full);
    return full;
  };
  const Shape& shape = place.tensor.parameter.local;
  args.weight = copied(arenas.weights, place.weight, shape);
  args.grad = copied(arenas.grads, place.grad, shape);
  for (std::size_t i = 0; i < place.states.size(); ++i)
    if (place.states[i].as_weight) args.states[i] = copied(arenas.states[i], place.states[i].begin, shape);
  if (place.tensor.is_split) tp_.group->all_reduce(setup().ops.stream(), parts.taken(), Reduction::sum);
  for (std::size_t i = 0; i < place.states.size(); ++i) {
    const TensorStates::State& state = place.states[i];
    if (!is_preview || state.as_weight || !state.exists()) continue;
    args.states[i] = parts.take(state.shape);
    setup().ops.copy(span(arenas.states[i], state.begin, static_cast<std::size_t>(state.shape.elements())), args.states[i]);
  }
  args.scratch = parts.rest();
  setup().ops.tensor_update(args);
  if (arenas.rounded.data != nullptr) extract(place, args.weight, arenas.rounded, place.rounded);
  if (is_preview) return;
  extract(place, args.weight, arenas.weights, place.weight);
  for (std::size_t i = 0; i < place.states.size(); ++i)
    if (place.states[i].as_weight) extract(place, args.states[i], arenas.states[i], place.states[i].begin);
}

// The rank's slices follow one another in all arenas.
void WholeTensorOptimizer::step_elements(const Stepped& of) {
  const auto& [place, arenas, step, is_preview] = of;
  const std::size_t elements = place.tensor.held;
  UpdateArgs args{.weight = span(arenas.weights, place.weight, elements),
                  .grad = span(arenas.grads, place.grad, elements),
                  .states = {},
                  .preview = is_preview,
                  .rule = setup().optimizer.rule(step, place.tensor.parameter.decays)};
  std::size_t next = 0;
  for (std::size_t i = 0; i < place.states.size(); ++i)
    if (place.states[i].exists()) args.states.at(next++) = span(arenas.states[i], place.states[i].begin, elements);
  if (arenas.rounded.data != nullptr) args.rounded = span(arenas.rounded, place.rounded, elements);
  setup().ops.update(args);
}

void WholeTensorOptimizer::step_tensor(const Stepped& of) {
  const auto& [place, arenas, step, is_preview] = of;
  const Parameter& parameter = place.tensor.parameter;
  const auto rule = setup().optimizer.tensor_rule(step, stepped_tensor(parameter));
  if (!rule) return step_elements(of);
  TensorUpdateArgs args{.weight = {}, .grad = {}, .transposed = parameter.transposed, .scratch = scratch_, .rule = *rule};
  const bool is_copied = is_preview || place.tensor.is_split;
  for (std::size_t i = 0; i < place.states.size(); ++i) {
    const TensorStates::State& state = place.states[i];
    if (!state.exists() || (is_copied && state.as_weight)) continue;
    const auto elements = static_cast<std::size_t>(state.shape.elements());
    args.states[i] = span(arenas.states[i], state.begin, elements).reshaped(state.shape);
  }
  if (is_copied) return step_copies(of, args);
  const std::size_t elements = place.tensor.held;
  const Tensor weight = span(arenas.weights, place.weight, elements);
  args.weight = weight.reshaped(parameter.local);
  args.grad = span(arenas.grads, place.grad, elements).reshaped(parameter.local);
  setup().ops.tensor_update(args);
  if (arenas.rounded.data != nullptr) setup().ops.round(weight, span(arenas.rounded, place.rounded, elements));
}

void WholeTensorOptimizer::preview(const Tensor& grads, const OptimizerStep& step) {
  const OptimizerArenas own = arenas(grads);
  for (const auto& unit : states_.by_unit())
    for (const Place& place : unit) step_tensor({place, own, step, true});
}

void WholeTensorOptimizer::step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) {
  const OptimizerArenas own = arenas(grads);
  for (std::size_t unit = 0; unit < states_.by_unit().size(); ++unit) {
    listener.steps(unit);
    for (const Place& place : states_.by_unit()[unit]) step_tensor({place, own, step, false});
    listener.stepped(unit);
  }
}

}  // namespace pipetrain
