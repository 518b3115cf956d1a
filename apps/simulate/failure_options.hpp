// The options of `pipetrain simulate --failures`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/options/option_values.hpp"

namespace pipetrain {

// The settings of simulated runs on hosts that fail. Times are in seconds unless their names say otherwise.
struct FailureOptions {
  std::vector<std::int64_t> gpus;  // of each run
  std::int64_t host_gpus = 8, tp = 8;
  std::optional<std::int64_t> spares;  // hosts; not given: one for every hundred of the run
  double days = 30;
  double host_failures = 3.79;  // of a host, in 1,000 days
  double repair_hours = 24;
  std::optional<double> step;        // not given: the profile's prediction
  std::optional<double> save_every;  // not given: schedules::best_save_interval()
  double save_stall = 5, restart = 600, takeover = 10;
  int runs = 20;
  std::uint64_t seed = 0;
};

OptionRows failure_rows();
// Returns nothing without --failures, and refuses the other rows then. pp: of the simulated schedule; profiled: the step's time
// is known. Throws Error(input).
std::optional<FailureOptions> read_failures(const OptionValues& values, int pp, bool profiled);

}  // namespace pipetrain
