// A run of weeks on many hosts, some of which fail: the share of its time that becomes steps.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain::schedules {

// How a run goes on after a host has failed.
enum class Recovery {
  restart,  // all processes begin again from the last checkpoint, once every host of the layout is there
  takeover  // the others keep their state and repeat the step in flight; a spare host or another one of the run takes the ranks
};

// Times are in seconds.
struct LongRun {
  double length = 0;
  int hosts = 1;          // that the layout uses
  int spares = 0;         // further hosts, idle until they replace a failed one
  double host_rate = 0;   // failures of one host in a second; they come independently of each other (a Poisson process)
  double repair = 0;      // from a host's failure until it is a spare
  double step = 1;        // of the undisturbed run
  double save_every = 0;  // time of steps between two checkpoints
  double save_stall = 0;  // that a checkpoint stops the steps
  double restart = 0;     // from a failure to the first step, with all hosts there; a further failure begins it again
  double takeover = 0;    // from a failure to the repeated step, also when ranks move to a repaired host
  Recovery recovery = Recovery::restart;
  // [stage]: how many times longer a step takes while a host computes for a failed one of this stage. At least 1; not empty.
  std::vector<double> slowdowns = {1};
  std::uint64_t seed = 0;
};

// Shares of the run's length, which add up to 1.
struct LongRunResult {
  double goodput = 0;   // steps that count, at the undisturbed run's speed
  double repeated = 0;  // steps whose results a failure destroyed
  double down = 0;      // no steps: restarts, takeovers, waits for hosts
  double slowed = 0;    // added to steps while hosts computed for failed ones
  double saving = 0;    // stalls of checkpoints
  int failures = 0;
  int restarts = 0;  // from a checkpoint
};

// Deterministic for a seed. In takeover a state is lost if the one host with its copy fails before the takeover ends; the run
// then restarts from its checkpoint. Throws std::invalid_argument for settings that are out of range.
LongRunResult simulate_long_run(const LongRun& run);

// Returns the time of steps between checkpoints that loses least to stalls and repeated steps: sqrt(2 x stall x time between
// failures) (Young 1974, doi 10.1145/361147.361115); at least one step.
double best_save_interval(const LongRun& run);

}  // namespace pipetrain::schedules
