// Provokes failures of runs of 2 to 8 processes at seeded places of seeded layouts: every run must end in time and name the
// right rank and cause, leave no process behind and, if it may start again, learn to the bit what an undisturbed run learns.
#pragma once

#include <vector>

#include "bench/faults/seeded_fault.hpp"

namespace pipetrain::bench {

// Runs this many failures of each of these kinds, every second one with --restart. Prints the results; returns true if
// all runs ended as they must.
bool faults_of_processes(int runs, const std::vector<Fault>& kinds);

}  // namespace pipetrain::bench
