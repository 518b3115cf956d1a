// Simulates a plan's stages in virtual time: discrete events over the StageProtocol that the stage actors drive.
#pragma once

#include <cstdint>

#include "schedules/plan/validate.hpp"
#include "schedules/simulate/cost.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

struct RecordedTimes;

// The number of microbatches that a queue has room for.
enum class QueueRoom {
  // The slots that a run reserves, see validate(): a stage also waits for a free slot where its consumer is far behind.
  reserved,
  all  // the whole step's: a message delays nobody but its receiver, as in published comparisons of schedules
};

struct SimulationOptions {
  Order order = Order::planned;
  int run_ahead = 2;
  SlotLife life{};
  QueueRoom room = QueueRoom::reserved;  // all: for Order::planned only, because a ready rule also chooses by free slots
  // Each action's time is multiplied by exp(jitter * z), z normal by (seed, stage, action): the same for every order and plan.
  double jitter = 0;
  std::uint64_t seed = 0;
  // The times of a step that was run, in place of the costs; for Order::planned and reserved slots. Must outlive the call.
  const RecordedTimes* recorded = nullptr;
};

// Simulates one step. `needs` are those of validate() for the same order and life. Launching and credits take no time; a
// planned action is launched before its inputs are computed and its device waits for them, a ready one only after.
// Deterministic to the bit. Throws std::invalid_argument for costs that do not fit, and for QueueRoom::all with Order::ready.
Timeline simulate(const Plan& plan, const Costs& costs, const std::vector<StageNeeds>& needs,
                  const SimulationOptions& options = {});
// Gets the needs from validate(), which may throw InvalidPlan.
Timeline simulate(const Plan& plan, const Costs& costs, const SimulationOptions& options = {});

// Returns the time of a step that is never idle and hides all communication within the stages: the most compute of one stage.
double ideal_time(const Costs& costs, int microbatches);

struct JitterResult {
  double median = 0;
  double p95 = 0;
  std::vector<double> makespans;  // in the order of runs
};
// Runs `runs` simulations with seeds options.seed, options.seed + 1, ...
JitterResult simulate_jitter(const Plan& plan, const Costs& costs, int runs, const SimulationOptions& options);

}  // namespace pipetrain::schedules
