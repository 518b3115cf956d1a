// The durations of the actions and messages of a simulated step: those of its costs, with jitter or without, or those that were
// recorded. Internal to schedules/.
#pragma once

#include "schedules/plan/braids.hpp"
#include "schedules/protocol/stage_protocol.hpp"
#include "schedules/simulate/cost.hpp"
#include "schedules/simulate/recorded_times.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain::schedules {

class ActionTimes {
 public:
  // All outlive it.
  ActionTimes(const Costs& costs, const SimulationOptions& options) : costs_(costs), options_(options) {}

  bool are_recorded() const { return options_.recorded != nullptr; }
  // Returns the time of the stage's action, the one at this position of its list.
  double of(int stage, std::size_t position, const Action& action) const {
    return are_recorded() ? options_.recorded->times[static_cast<std::size_t>(stage)][position]
                          : costs_.of(stage, action) * factor(stage, action);
  }
  // Returns the recorded time from the arrival of the action's inputs to its start; 0 without a record.
  double delay(int stage, std::size_t position) const {
    return are_recorded() ? options_.recorded->delays[static_cast<std::size_t>(stage)][position] : 0;
  }
  // Returns the time of a message to virtual stage v.
  double transfer(InputKind kind, int v, int microbatch) const;
  // Returns the times of a braid of two actions. A braid without communication to hide runs them one after the other.
  BraidTimes of_braid(int stage, const Action& first, const Action& second) const;
  // Returns true if a braid that begins with this action hides communication.
  bool hides_in_braid(int stage, const Action& action) const {
    return chunk(stage, action).communication > 0 && !are_recorded();
  }

 private:
  const ChunkCost& chunk(int stage, const Action& action) const {
    return costs_.chunks[static_cast<std::size_t>(stage)][static_cast<std::size_t>(action.chunk)];
  }
  double factor(int stage, const Action& action) const;
  BraidPart braid_part(int stage, const Action& action) const;

  const Costs& costs_;
  const SimulationOptions& options_;
};

}  // namespace pipetrain::schedules
