// The optimizer of a rank of which something lives outside of its device: its states, and master weights where operations read
// rounded ones; or the weights that operations read. Its step streams them through the device, where the same operations run on
// the same numbers as without. Element by element, so the bits are those of states that stay.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offload/offloaded_states.hpp"
#include "core/device.hpp"
#include "model/config/offload.hpp"
#include "model/optimizer/optimizer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OffloadedOptimizer {
 public:
  // What lives outside.
  struct Outside {
    bool states = false;   // of the optimizer
    bool masters = false;  // then a part's weight and state lie at the same place
    OffloadedArray* operands = nullptr;
  };
  struct Setup {
    Device& device;
    OffloadStreams& streams;
    const Optimizer& optimizer;
    std::vector<std::vector<OptimizerPart>> units;  // what it steps, as StatePlaces::optimizer_parts() has it
    std::size_t elements = 0;                       // of each state
    Outside outside;                                // operands: then weights, states and operands lie at the same places
    bool rounds = false;                            // operands are rounded from master weights; else they are the weights
    std::filesystem::path folder;                   // see Offload
    std::string name;                               // of the rank, for errors
  };
  // Everything outlives it. Throws what OffloadedStates throws.
  OffloadedOptimizer(const Setup& setup, Ops& ops);

  // operand_bytes: of each weight, where operands live outside; else 0.
  static OffloadedBlocks blocks(const Optimizer& optimizer, std::size_t elements, const Outside& outside,
                                std::size_t operand_bytes);

  // Whether the state of this name is offloaded; "weights" are the master weights.
  bool keeps(const std::string& state) const;
  // Of a state that it keeps, by elements. read() and begin_writing() wait for the device. write(): after begin_writing(),
  // different elements on several threads at once.
  void read(const std::string& state, std::size_t begin, float* values, std::size_t count);
  void begin_writing();
  void write(const std::string& state, std::size_t begin, const float* values, std::size_t count);
  // Rounds these parts of the master weights to arenas.rounded, or all to the operands outside, after they were written.
  // arenas: the weights too, where the masters are not outside.
  void round_weights(const std::vector<OptimizerPart>& parts, const OptimizerArenas& arenas);

  // Before a step that may end with step().
  void fetch_ahead() { states_.fetch_ahead(); }
  // Called in the order of units: before something of the unit is enqueued, perhaps several times; and for every unit, once all
  // of it has been.
  struct Listener {
    std::function<void(std::size_t unit)> steps, stepped;
  };
  // arenas: gradients, rounded weights, and the weights where they are not offloaded.
  void step(const OptimizerArenas& arenas, const OptimizerStep& step, const Listener& listener);

 private:
  // The part of it in each block, with the offsets that it has there.
  using ByBlock = std::vector<std::vector<OptimizerPart>>;
  struct UnitParts {
    std::size_t unit = 0;
    std::vector<OptimizerPart> parts;
  };
  ByBlock cut(const std::vector<OptimizerPart>& parts) const;
  std::size_t array(const std::string& state) const;
  std::size_t masters() const { return setup_.outside.masters ? 1 : 0; }
  bool fetches_weights() const { return setup_.outside.operands != nullptr && !setup_.rounds; }
  // The master weights of a block, at the places of its parts that are on the device now.
  Tensor masters_of(std::size_t block, const OffloadedStates::Block& here, const OptimizerArenas& arenas) const;
  void round_to_window(std::size_t block, const OffloadedStates::Block& here, const OptimizerArenas& arenas);

  Setup setup_;
  Ops& ops_;
  OffloadedStates states_;
  std::vector<std::vector<UnitParts>> parts_;  // by block
  std::vector<std::size_t> last_blocks_;       // by unit: after which it and all before it have been stepped
};

}  // namespace pipetrain
