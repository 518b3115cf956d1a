#include "actors/training/offloaded_optimizer.hpp"

#include <algorithm>

#include "actors/training/rank_state.hpp"
#include "core/error.hpp"
#include "model/arena_views.hpp"

namespace pipetrain {

OffloadedBlocks OffloadedOptimizer::blocks(const Optimizer& optimizer, std::size_t elements, bool offloads_weights) {
  return {optimizer.states().size() + (offloads_weights ? 1 : 0), elements};
}

OffloadedOptimizer::OffloadedOptimizer(const Setup& setup, Ops& ops)
    : setup_(setup),
      ops_(ops),
      states_({setup.device, ops.stream(), blocks(setup.optimizer, setup.elements, setup.offloads_weights), setup.folder,
               setup.name}),
      parts_(states_.blocks().count()) {
  std::size_t last = 0;
  for (const auto& unit : setup_.units) {
    const ByBlock own = cut(unit);
    for (std::size_t block = 0; block < own.size(); ++block) {
      if (own[block].empty()) continue;
      parts_[block].insert(parts_[block].end(), own[block].begin(), own[block].end());
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
      piece.state = at - region.begin;
      piece.weight = setup_.offloads_weights ? piece.state : part.weight + done;
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
  if (state == weights_state) return setup_.offloads_weights;
  const auto& names = setup_.optimizer.states();
  return std::find(names.begin(), names.end(), state) != names.end();
}

void OffloadedOptimizer::read(const std::string& state, std::size_t begin, float* values, std::size_t count) {
  ops_.stream().synchronize();
  states_.read(array(state), begin, values, count);
}

void OffloadedOptimizer::write(const std::string& state, std::size_t begin, const float* values, std::size_t count) {
  ops_.stream().synchronize();
  states_.write(array(state), begin, values, count);
}

void OffloadedOptimizer::round_weights(const std::vector<OptimizerPart>& parts, const Tensor& rounded) {
  const ByBlock pieces = cut(parts);
  for (std::size_t block = 0; block < pieces.size(); ++block) {
    const auto& arrays = states_.acquire(block);
    for (const OptimizerPart& piece : pieces[block])
      ops_.round(span(arrays[0], piece.state, piece.elements), span(rounded, piece.rounded, piece.elements));
    states_.release(block, OffloadedStates::Change::none);
  }
}

void OffloadedOptimizer::step(const OptimizerArenas& arenas, const OptimizerStep& step,
                              const std::function<void(std::size_t unit)>& stepped) {
  std::size_t unit = 0;
  for (std::size_t block = 0; block < parts_.size(); ++block) {
    const auto& arrays = states_.acquire(block);
    OptimizerArenas here{arenas.weights, arenas.grads, {}, arenas.rounded};
    if (setup_.offloads_weights) here.weights = arrays.front();
    here.states.assign(arrays.begin() + static_cast<std::ptrdiff_t>(masters()), arrays.end());
    optimizer_step(parts_[block], ops_, here, setup_.optimizer, step);
    states_.release(block, OffloadedStates::Change::stored);
    for (; unit < last_blocks_.size() && last_blocks_[unit] <= block; ++unit) stepped(unit);
  }
  for (; unit < last_blocks_.size(); ++unit) stepped(unit);  // of a rank that has no block
}

}  // namespace pipetrain
