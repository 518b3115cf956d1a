// The optimizer of a rank whose states, and master weights where operations read rounded ones, live outside of its device: its
// step streams them through the device, where the same operations run on the same numbers as without. Element by element, so
// the bits are those of states that stay.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/training/offloaded_states.hpp"
#include "core/device.hpp"
#include "model/offload.hpp"
#include "model/optimizer.hpp"

namespace pipetrain {

// Used by the rank's worker; not thread-safe.
class OffloadedOptimizer {
 public:
  struct Setup {
    Device& device;
    const Optimizer& optimizer;
    std::vector<std::vector<OptimizerPart>> units;  // what it steps, as StatePlaces::optimizer_parts() has it
    std::size_t elements = 0;                       // of each state
    bool offloads_weights = false;                  // then a part's weight and state lie at the same place
    std::filesystem::path folder;                   // see Offload
    std::string name;                               // of the rank, for errors
  };
  // Everything outlives it. Throws what OffloadedStates throws.
  OffloadedOptimizer(const Setup& setup, Ops& ops);

  static OffloadedBlocks blocks(const Optimizer& optimizer, std::size_t elements, bool offloads_weights);

  // Whether the state of this name is offloaded; "weights" are the master weights.
  bool keeps(const std::string& state) const;
  // Of a state that it keeps, by elements; waits for the device.
  void read(const std::string& state, std::size_t begin, float* values, std::size_t count);
  void write(const std::string& state, std::size_t begin, const float* values, std::size_t count);
  // Rounds these parts of the master weights to `rounded`, after they were written.
  void round_weights(const std::vector<OptimizerPart>& parts, const Tensor& rounded);

  // Before a step that may end with step().
  void fetch_ahead() { states_.fetch_ahead(); }
  // arenas: gradients, rounded weights, and the weights where they are not offloaded. `stepped` is called for every unit, in
  // order, once all of it has been enqueued.
  void step(const OptimizerArenas& arenas, const OptimizerStep& step, const std::function<void(std::size_t unit)>& stepped);

  std::vector<Stream*> streams() const { return states_.streams(); }

 private:
  // The part of it in each block, with the offsets that it has there.
  using ByBlock = std::vector<std::vector<OptimizerPart>>;
  ByBlock cut(const std::vector<OptimizerPart>& parts) const;
  std::size_t array(const std::string& state) const;
  std::size_t masters() const { return setup_.offloads_weights ? 1 : 0; }

  Setup setup_;
  Ops& ops_;
  OffloadedStates states_;
  ByBlock parts_;
  std::vector<std::size_t> last_blocks_;  // by unit: after which it and all before it have been stepped
};

}  // namespace pipetrain
