#include "actors/training/state/resident_optimizer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

namespace {

// Cuts the parts at the ends of the ranges, and marks those within them.
std::vector<OptimizerPart> with_averaged(const std::vector<OptimizerPart>& parts, const std::vector<Region>& ranges) {
  std::vector<OptimizerPart> cut;
  const auto add = [&](const OptimizerPart& part, std::size_t begin, std::size_t end, bool averaged) {
    if (begin >= end) return;
    OptimizerPart piece = part;
    for (std::size_t OptimizerPart::*at :
         {&OptimizerPart::weight, &OptimizerPart::grad, &OptimizerPart::state, &OptimizerPart::rounded})
      piece.*at += begin - part.weight;
    piece.elements = end - begin;
    piece.averaged = averaged;
    cut.push_back(piece);
  };
  for (const OptimizerPart& part : parts) {
    std::size_t reached = part.weight;
    const std::size_t end = part.weight + part.elements;
    for (const Region& range : ranges) {
      const std::size_t from = std::clamp(range.begin, reached, end), to = std::clamp(range.end, from, end);
      if (from == to) continue;
      add(part, reached, from, false);
      add(part, from, to, true);
      reached = to;
    }
    add(part, reached, end, false);
  }
  return cut;
}

}  // namespace

ResidentOptimizer::Lengths ResidentOptimizer::lengths(const StatePlaces& places, const Precision& precision,
                                                      const Offload& offload) {
  return {.weights = offloads_weights(offload, precision) ? 0 : places.weights(),
          .rounded = offload.parameters ? 0 : places.rounded(),
          .states = offload.optimizer ? 0 : places.states()};
}

ResidentOptimizer::ResidentOptimizer(const Setup& setup)
    : ResidentOptimizer(setup, std::vector<std::size_t>(setup.offload.optimizer ? 0 : setup.optimizer.states().size(),
                                                        setup.places.states())) {}

ResidentOptimizer::ResidentOptimizer(const Setup& setup, const std::vector<std::size_t>& states)
    : setup_(setup), units_(setup.places.optimizer_parts()) {
  if (!setup_.averaged.empty())
    for (auto& parts : units_) parts = with_averaged(parts, setup_.averaged);
  const Lengths here = lengths(setup_.places, setup_.precision, setup_.offload);
  if (here.weights > 0) arenas_.weights = allocate(here.weights, setup_.precision.master, "parameters");
  if (here.rounded > 0) arenas_.rounded = allocate(here.rounded, setup_.precision.compute, "rounded parameters");
  for (std::size_t i = 0; i < states.size(); ++i)
    arenas_.states.push_back(allocate(states[i], setup_.precision.master, "optimizer state " + setup_.optimizer.states()[i]));
  zero();
}

// Rows that pad a table stay zero. This comes last: nothing may fail while the stream writes to memory that would then
// be freed.
void ResidentOptimizer::zero() {
  Stream& stream = setup_.ops.stream();
  if (arenas_.weights.data != nullptr) stream.zero(arenas_.weights);
  if (arenas_.rounded.data != nullptr) stream.zero(arenas_.rounded);
  for (const Tensor& state : arenas_.states) stream.zero(state);
}

Tensor ResidentOptimizer::allocate(std::size_t elements, DType dtype, const std::string& what) {
  memory_.push_back(
      setup_.device.allocate(align_up(std::max<std::size_t>(elements, 1) * size_of(dtype)), setup_.rank + ": " + what));
  return {memory_.back().data(), {static_cast<std::int64_t>(elements)}, dtype};
}

const Tensor& ResidentOptimizer::arena(const std::string& state) const {
  static const Tensor outside{nullptr, {0}};
  if (state == weights_state) return arenas_.weights.data ? arenas_.weights : outside;
  const auto& names = setup_.optimizer.states();
  const auto found = std::find(names.begin(), names.end(), state);
  if (found == names.end()) throw_unknown_state(state);
  return arenas_.states.empty() ? outside : arenas_.states[static_cast<std::size_t>(found - names.begin())];
}

void ResidentOptimizer::throw_unknown_state(const std::string& state) const {
  throw Error(ErrorKind::input,
              "the optimizer " + setup_.optimizer_name + " keeps no state " + state + ": this state is of another optimizer");
}

OptimizerArenas ResidentOptimizer::arenas(const Tensor& grads) const {
  OptimizerArenas arenas = arenas_;
  arenas.grads = grads;
  return arenas;
}

void ResidentOptimizer::read(const std::string& state, std::size_t begin, float* values, std::size_t count) {
  setup_.ops.stream().copy(values, on_device(state) + begin, count * sizeof(float));
  setup_.ops.stream().synchronize();
}

void ResidentOptimizer::begin_writing(const std::string& state) {
  static_cast<void>(arena(state));    // throws where there is none
  setup_.ops.stream().synchronize();  // now the host may write to memory that it shares with the device
}

void ResidentOptimizer::write(const std::string& state, std::size_t begin, const float* values, std::size_t count) {
  const std::lock_guard lock(stream_turn_);
  setup_.ops.stream().copy(on_device(state) + begin, values, count * sizeof(float));
  setup_.ops.stream().synchronize();
}

void ResidentOptimizer::round_weights() {
  if (arenas_.rounded.data == nullptr) return;
  const StatePlaces& places = setup_.places;
  for (const HeldPart& part : places.held())
    setup_.ops.round(span(arenas_.weights, places.weight_at(part), part.size()),
                     span(arenas_.rounded, places.rounded_at(part), part.size()));
}

void ResidentOptimizer::preview(const Tensor& grads, const OptimizerStep& step) {
  for (const auto& unit : units_) optimizer_preview(unit, setup_.ops, arenas(grads), setup_.optimizer, step);
}

void ResidentOptimizer::step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) {
  const OptimizerArenas own = arenas(grads);
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    listener.steps(unit);
    optimizer_step(units_[unit], setup_.ops, own, setup_.optimizer, step);
    listener.stepped(unit);
  }
}

}  // namespace pipetrain
