// Models a stage's moves of activations out of its device's memory and back in virtual time.
#pragma once

#include <vector>

#include "schedules/plan/action.hpp"
#include "schedules/plan/plan_needs.hpp"
#include "schedules/simulate/free_slots.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

// Moves of one direction run one after the other; the two directions run beside each other and beside compute. Each
// chunk has places in the device's memory, as in a run (actors/training/rank/activation_pool.hpp): F or G takes one, P
// or the weight gradient frees it. Without needs a stage moves nothing, and nothing waits for a place.
class SimulatedMoves {
 public:
  SimulatedMoves() = default;
  SimulatedMoves(const StageNeeds& needs, int microbatches);

  bool active() const { return !chunks_.empty(); }
  // Returns when the place that is taken is free; 0 without moves.
  double take_place(int chunk);
  void give_place_back(int chunk, double time);
  // Returns when the action's activations are on the device again; 0 where they never left.
  double back_at(const Action& action) const;
  // Runs a move out (P) or in (G) of this duration that may begin at `from`. A move in also waits for its move out and
  // for a place.
  Span launch(const Action& action, double from, double duration);

 private:
  struct Chunk {
    FreeSlots places;
    std::vector<double> out_at, back_at;  // [microbatch]
  };
  std::vector<Chunk> chunks_;
  double out_free_at_ = 0, in_free_at_ = 0;

  Chunk& chunk(int index) { return chunks_[static_cast<std::size_t>(index)]; }
};

}  // namespace pipetrain::schedules
