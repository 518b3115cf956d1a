#pragma once

#include "apps/simulate/simulate_options.hpp"

namespace pipetrain {

// Simulates and prints to stdout; writes the requested files whole or not at all. Returns the exit status. Throws Error.
int run_simulate(const SimulateOptions& options);

}  // namespace pipetrain
