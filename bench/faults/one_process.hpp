// Provokes failures at seeded places of seeded layouts within one process: every run must end with its cause, in time,
// and leave no thread behind.
#pragma once

namespace pipetrain::bench {

// Runs this many failures of each kind. Prints the results; returns true if all runs ended as they must.
bool faults_in_one_process(int runs);

}  // namespace pipetrain::bench
