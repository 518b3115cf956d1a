// SIGINT and SIGTERM ask a run to finish its step; a second one ends the process at once.
#pragma once

namespace pipetrain {

// Catches both signals for the process from now on. The first makes stop_signal() tell its number; the second exits with the
// shell's status for it, without clean-up.
void catch_stop_signals();
// 0 until a signal came. Thread-safe.
int stop_signal();

}  // namespace pipetrain
