// The optimizer of a parameter group with data outside of the device: its states, and master weights where operations read
// rounded ones; or the weights that operations read. A step streams them through the device. It is element-wise and runs the
// operations of resident states, so its bits are the same. Source: Ren et al. 2021, "ZeRO-Offload", arXiv 2101.06840.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/training/offload/offloaded_array.hpp"
#include "actors/training/offload/offloaded_states.hpp"
#include "actors/training/state/resident_optimizer.hpp"

namespace pipetrain {

class OffloadedOptimizer final : public ResidentOptimizer {
 public:
  // operands: weights outside of the device, at the offsets of states; null: they are on it. All arguments must outlive
  // it. Also throws what OffloadedStates throws.
  OffloadedOptimizer(const Setup& setup, OffloadStreams& streams, OffloadedArray* operands);

  // Returns the array of operands: all weights, or this rank's ranges of them where replicas divide them. This and the next are
  // pure.
  static OffloadedArray::Lengths operand_lengths(const StatePlaces& places, DType type);
  static OffloadedBlocks blocks(const Optimizer& optimizer, std::size_t elements, const Offload& offload,
                                const Precision& precision);

  float* on_device(const std::string& state) const override;
  void read(const std::string& state, std::size_t begin, float* values, std::size_t count) override;
  void begin_writing(const std::string& state) override;
  void write(const std::string& state, std::size_t begin, const float* values, std::size_t count) override;
  void round_weights() override;
  void begin_step() override { states_.fetch_ahead(); }
  void step(const Tensor& grads, const OptimizerStep& step, const Listener& listener) override;

 private:
  // The parts of a unit in each block, with their offsets there.
  using ByBlock = std::vector<std::vector<OptimizerPart>>;
  struct UnitParts {
    std::size_t unit = 0;
    std::vector<OptimizerPart> parts;
  };
  void place_units();
  ByBlock cut(const std::vector<OptimizerPart>& parts) const;
  // Returns the index of a state's array in OffloadedStates.
  std::size_t array(const std::string& state) const;
  bool keeps(const std::string& state) const { return on_device(state) == nullptr; }
  bool rounds() const { return setup().precision.rounds_weights(); }
  bool has_states() const { return setup().offload.optimizer; }
  bool has_masters() const { return offloads_masters(setup().offload, setup().precision); }
  bool fetches_weights() const { return operands_ != nullptr && !rounds(); }
  // Returns every held part of the weights with its offset.
  std::vector<OptimizerPart> held_weights() const;
  // Returns the master weights of a block, at the offsets of its parts that are on the device now.
  Tensor masters_of(std::size_t block, const OffloadedStates::Block& here, const OptimizerArenas& arenas) const;
  void round_to_window(std::size_t block, const OffloadedStates::Block& here, const OptimizerArenas& arenas);

  OffloadedArray* operands_;
  OffloadedStates states_;
  std::vector<std::vector<UnitParts>> parts_;  // by block
  std::vector<std::size_t> last_blocks_;       // by unit: the block after which it and all units before it have been stepped
};

}  // namespace pipetrain
