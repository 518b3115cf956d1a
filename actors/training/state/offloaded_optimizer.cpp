#include "actors/training/state/offloaded_optimizer.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "model/parameters/arena_views.hpp"

namespace pipetrain {

namespace {

std::vector<OffloadedStates::Window> windows(const OffloadedOptimizer::Setup& setup) {
  if (setup.outside.operands == nullptr) return {};
  return {{.array = setup.outside.operands, .fetched = !setup.rounds, .stored = true}};
}

std::size_t outside_operand_bytes(const OffloadedOptimizer::Outside& outside) {
  return outside.operands == nullptr ? 0 : size_of(outside.operands->type());
}

}  // namespace

OffloadedBlocks OffloadedOptimizer::blocks(const Optimizer& optimizer, std::size_t elements, const Outside& outside,
                                           std::size_t operand_bytes) {
  return {(outside.states ? optimizer.states().size() : 0) + (outside.masters ? 1 : 0), elements, operand_bytes};
}

OffloadedOptimizer::OffloadedOptimizer(const Setup& setup, Ops& ops)
    : setup_(setup),
      ops_(ops),
      states_({setup.device, ops.stream(), setup.streams,
               blocks(setup.optimizer, setup.elements, setup.outside, outside_operand_bytes(setup.outside)), windows(setup),
               setup.folder, setup.name}),
      parts_(states_.blocks().count()) {
  std::size_t last = 0;
  for (std::size_t unit = 0; unit < setup_.units.size(); ++unit) {
    const ByBlock own = cut(setup_.units[unit]);
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
      piece.state = setup_.outside.states ? here : at;
      piece.weight = setup_.outside.masters || fetches_weights() ? here : part.weight + done;
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
  const auto& names = setup_.optimizer.states();
  return masters() + static_cast<std::size_t>(std::find(names.begin(), names.end(), state) - names.begin());
}

bool OffloadedOptimizer::keeps(const std::string& state) const {
  if (state == weights_state) return setup_.outside.masters || fetches_weights();
  if (!setup_.outside.states) return false;
  const auto& names = setup_.optimizer.states();
  return std::find(names.begin(), names.end(), state) != names.end();
}

void OffloadedOptimizer::read(const std::string& state, std::size_t begin, float* values, std::size_t count) {
  ops_.stream().synchronize();
  if (state == weights_state && fetches_weights()) return setup_.outside.operands->read(begin, values, count);
  states_.read(array(state), begin, values, count);
}

void OffloadedOptimizer::begin_writing() {
  ops_.stream().synchronize();
  states_.settle();
}

void OffloadedOptimizer::write(const std::string& state, std::size_t begin, const float* values, std::size_t count) {
  if (state == weights_state && fetches_weights()) return setup_.outside.operands->write(begin, values, count);
  states_.write(array(state), begin, values, count);
}

Tensor OffloadedOptimizer::masters_of(std::size_t block, const OffloadedStates::Block& here,
                                      const OptimizerArenas& arenas) const {
  const Region region = states_.blocks().region(block);
  if (setup_.outside.masters) return span(here.arrays.front(), 0, region.size());
  return span(arenas.weights, region.begin, region.size());
}

// Of all weights, also those that are not stepped, and of what lies between them.
void OffloadedOptimizer::round_to_window(std::size_t block, const OffloadedStates::Block& here, const OptimizerArenas& arenas) {
  const Tensor masters = masters_of(block, here, arenas);
  ops_.round(masters, span(here.windows.front(), 0, static_cast<std::size_t>(masters.elements())));
}

void OffloadedOptimizer::round_weights(const std::vector<OptimizerPart>& parts, const OptimizerArenas& arenas) {
  const bool to_window = setup_.outside.operands != nullptr;
  const ByBlock pieces = to_window ? ByBlock(states_.blocks().count()) : cut(parts);
  states_.fetch_only(masters());
  for (std::size_t block = 0; block < pieces.size(); ++block) {
    const OffloadedStates::Block& here = states_.acquire(block);
    if (to_window) round_to_window(block, here, arenas);
    for (const OptimizerPart& piece : pieces[block])
      ops_.round(span(here.arrays.front(), piece.state, piece.elements), span(arenas.rounded, piece.rounded, piece.elements));
    states_.release(block, to_window ? OffloadedStates::Change::windows : OffloadedStates::Change::none);
  }
}

void OffloadedOptimizer::step(const OptimizerArenas& arenas, const OptimizerStep& step, const Listener& listener) {
  std::size_t unit = 0;
  for (std::size_t block = 0; block < parts_.size(); ++block) {
    const OffloadedStates::Block& here = states_.acquire(block);
    OptimizerArenas own = arenas;
    if (setup_.outside.masters) own.weights = here.arrays.front();
    if (fetches_weights()) own.weights = here.windows.front();
    if (setup_.outside.states)
      own.states.assign(here.arrays.begin() + static_cast<std::ptrdiff_t>(masters()), here.arrays.end());
    for (const UnitParts& unit_parts : parts_[block]) {
      listener.steps(unit_parts.unit);
      optimizer_step(unit_parts.parts, ops_, own, setup_.optimizer, step);
    }
    if (setup_.outside.operands != nullptr && setup_.rounds) round_to_window(block, here, arenas);
    states_.release(block, OffloadedStates::Change::all);
    for (; unit < last_blocks_.size() && last_blocks_[unit] <= block; ++unit) listener.stepped(unit);
  }
  for (; unit < last_blocks_.size(); ++unit) listener.stepped(unit);  // of a rank that has no block
}

}  // namespace pipetrain
