#include "actors/training/state/offloaded_optimizer.hpp"

#include <algorithm>

#include "model/parameters/arena_views.hpp"

namespace pipetrain {

namespace {

std::vector<OffloadedStates::Window> operand_windows(OffloadedArray* operands, bool rounds) {
  if (operands == nullptr) return {};
  return {{.array = operands, .fetched = !rounds, .stored = true}};
}

}  // namespace

OffloadedArray::Lengths OffloadedOptimizer::operand_lengths(const StatePlaces& places, DType type) {
  std::size_t largest = OffloadedBlocks({.elements = places.states()}).block_elements();
  for (const ShardUnit& unit : places.units()) {
    const Region fetched = places.gathers_weights() ? places.run(unit) : unit.weights;
    largest = std::max(largest, fetched.size());
  }
  return {places.states(), largest, type};
}

OffloadedBlocks OffloadedOptimizer::blocks(const Optimizer& optimizer, std::size_t elements, const Offload& offload,
                                           const Precision& precision) {
  const std::size_t arrays =
      (offload.optimizer ? optimizer.states().size() : 0) + (offloads_masters(offload, precision) ? 1 : 0);
  return OffloadedBlocks({.arrays = arrays,
                          .elements = elements,
                          .window_bytes = offload.parameters ? size_of(precision.compute) : 0,
                          .fraction = offload.optimizer_fraction});
}

OffloadedOptimizer::OffloadedOptimizer(const Setup& setup, OffloadStreams& streams, OffloadedArray* operands)
    : ResidentOptimizer(setup),
      operands_(operands),
      states_({setup.device, setup.ops.stream(), streams,
               blocks(setup.optimizer, setup.places.states(), setup.offload, setup.precision),
               operand_windows(operands, rounds()), setup.offload.folder, setup.rank}),
      parts_(states_.blocks().count()) {
  place_units();
}

void OffloadedOptimizer::place_units() {
  std::size_t last = 0;
  for (std::size_t unit = 0; unit < units().size(); ++unit) {
    const ByBlock own = cut(units()[unit]);
    for (std::size_t block = 0; block < own.size(); ++block) {
      if (own[block].empty()) continue;
      parts_[block].push_back({unit, own[block]});
      last = std::max(last, block);
    }
    last_blocks_.push_back(last);
  }
}

OffloadedOptimizer::ByBlock OffloadedOptimizer::cut(const std::vector<OptimizerPart>& parts) const {
  const OffloadedBlocks& blocks = states_.blocks();
  ByBlock cut(blocks.count());
  for (const OptimizerPart& part : parts) {
    for (std::size_t done = 0; done < part.elements;) {
      const std::size_t at = part.state + done, block = blocks.block_of(at);
      const Region region = blocks.region(block);
      OptimizerPart piece = part;
      piece.elements = std::min(part.elements - done, region.end - at);
      const std::size_t here = at - region.begin;
      piece.state = has_states() ? here : at;
      piece.weight = has_masters() || fetches_weights() ? here : part.weight + done;
      piece.grad += done;
      piece.rounded += done;
      cut[block].push_back(piece);
      done += piece.elements;
    }
  }
  return cut;
}

std::size_t OffloadedOptimizer::array(const std::string& state) const {
  if (state == weights_state) return 0;
  const auto& names = setup().optimizer.states();
  return (has_masters() ? 1 : 0) + static_cast<std::size_t>(std::find(names.begin(), names.end(), state) - names.begin());
}

float* OffloadedOptimizer::on_device(const std::string& state) const {
  const bool outside = state == weights_state ? has_masters() || fetches_weights() : has_states();
  float* const here = ResidentOptimizer::on_device(state);  // throws where the optimizer has no such state
  return outside ? nullptr : here;
}

void OffloadedOptimizer::read(const std::string& state, std::size_t begin, float* values, std::size_t count) {
  if (!keeps(state)) return ResidentOptimizer::read(state, begin, values, count);
  setup().ops.stream().synchronize();
  if (state == weights_state && fetches_weights()) return operands_->read(begin, values, count);
  states_.read(array(state), begin, values, count);
}

void OffloadedOptimizer::begin_writing(const std::string& state) {
  ResidentOptimizer::begin_writing(state);
  states_.settle();
}

void OffloadedOptimizer::write(const std::string& state, std::size_t begin, const float* values, std::size_t count) {
  if (!keeps(state)) return ResidentOptimizer::write(state, begin, values, count);
  if (state == weights_state && fetches_weights()) return operands_->write(begin, values, count);
  states_.write(array(state), begin, values, count);
}

Tensor OffloadedOptimizer::masters_of(std::size_t block, const OffloadedStates::Block& here,
                                      const OptimizerArenas& arenas) const {
  const Region region = states_.blocks().region(block);
  if (has_masters()) return span(here.arrays.front(), 0, region.size());
  return span(arenas.weights, region.begin, region.size());
}

// Rounds all weights, including those that are not stepped and the gaps between them.
void OffloadedOptimizer::round_to_window(std::size_t block, const OffloadedStates::Block& here, const OptimizerArenas& arenas) {
  const Tensor masters = masters_of(block, here, arenas);
  setup().ops.round(masters, span(here.windows.front(), 0, static_cast<std::size_t>(masters.elements())));
}

std::vector<OptimizerPart> OffloadedOptimizer::held_weights() const {
  const StatePlaces& places = setup().places;
  std::vector<OptimizerPart> parts;
  for (const HeldPart& part : places.held()) {
    const std::size_t at = places.weight_at(part);
    parts.push_back({.elements = part.size(), .weight = at, .state = at, .rounded = places.rounded_at(part)});
  }
  return parts;
}

void OffloadedOptimizer::round_weights() {
  if (!rounds()) return;
  if (!has_masters() && operands_ == nullptr) return ResidentOptimizer::round_weights();
  const bool to_window = operands_ != nullptr;
  const OptimizerArenas own = arenas({});
  const ByBlock pieces = to_window ? ByBlock(states_.blocks().count()) : cut(held_weights());
  states_.fetch_only(has_masters() ? 1 : 0);
  for (std::size_t block = 0; block < pieces.size(); ++block) {
    const OffloadedStates::Block& here = states_.acquire(block);
    if (to_window) round_to_window(block, here, own);
    for (const OptimizerPart& piece : pieces[block])
      setup().ops.round(span(here.arrays.front(), piece.state, piece.elements),
                        span(own.rounded, piece.rounded, piece.elements));
    states_.release(block, to_window ? OffloadedStates::Change::windows : OffloadedStates::Change::none);
  }
}

void OffloadedOptimizer::step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) {
  const OptimizerArenas arenas = this->arenas(grads);
  std::size_t unit = 0;
  for (std::size_t block = 0; block < parts_.size(); ++block) {
    const OffloadedStates::Block& here = states_.acquire(block);
    OptimizerArenas own = arenas;
    if (has_masters()) own.weights = here.arrays.front();
    if (fetches_weights()) own.weights = here.windows.front();
    if (has_states()) own.states.assign(here.arrays.begin() + (has_masters() ? 1 : 0), here.arrays.end());
    for (const UnitParts& unit_parts : parts_[block]) {
      listener.steps(unit_parts.unit);
      optimizer_step(unit_parts.parts, setup().ops, own, setup().optimizer, step);
    }
    if (operands_ != nullptr && rounds()) round_to_window(block, here, arenas);
    states_.release(block, OffloadedStates::Change::all);
    for (; unit < last_blocks_.size() && last_blocks_[unit] <= block; ++unit) listener.stepped(unit);
  }
  for (; unit < last_blocks_.size(); ++unit) listener.stepped(unit);  // of a rank that has no block
}

}  // namespace pipetrain
