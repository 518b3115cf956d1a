// Failures at seeded places of seeded layouts within one process: every run must end with its cause, in time, and leave no
// thread behind.
#pragma once

namespace pipetrain::bench {

// So many of each kind. Prints what was found; returns whether all is well.
bool faults_in_one_process(int runs);

}  // namespace pipetrain::bench
