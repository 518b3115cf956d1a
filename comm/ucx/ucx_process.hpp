// What UCX does to the process that it lives in, for programs that end in a way of their own. Nothing in a build without UCX.
#pragma once

#include <mutex>

namespace pipetrain {

// Takes back the handlers by which UCX prints the stack of a process that SIGSEGV, SIGBUS, SIGFPE or SIGILL ends, unless the
// environment says what UCX does then (UCX_HANDLE_ERRORS, UCX_ERROR_SIGNALS). To be called before own handlers are set.
void print_no_ucx_stacks() noexcept;

// For a process that is about to end: waits until no worker is being opened, 2 s at most, lets none be opened from now on, and
// removes the process's folder of shared memory. One that ends in the middle of that leaves it to the next. Thread-safe.
void hold_ucx_openings() noexcept;

// Removes that folder alone. Async-signal-safe.
void remove_ucx_folder() noexcept;

// Removes what this user's processes have left of UCX's shared memory in /dev/shm that have ended. For a program that outlives
// them.
void remove_ucx_leftovers() noexcept;

// For UcxWorker: held while it opens.
std::unique_lock<std::timed_mutex> begin_ucx_opening();

}  // namespace pipetrain
