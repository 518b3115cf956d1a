// Controls UCX's effects on the process, for programs that end in their own way. Does nothing in a build without UCX.
#pragma once

#include <mutex>

namespace pipetrain {

// Removes the handlers by which UCX prints a stack trace on SIGSEGV, SIGBUS, SIGFPE or SIGILL, unless the environment
// configures them (UCX_HANDLE_ERRORS, UCX_ERROR_SIGNALS). Call it before setting own handlers.
void print_no_ucx_stacks() noexcept;

// For a process that is about to end: waits at most 2 s until no worker is being opened, prevents further ones, and removes the
// process's folder of shared memory. A process that ends in the middle of this leaves the folder to the next one. Thread-safe.
void hold_ucx_openings() noexcept;

// Removes that folder alone. Async-signal-safe.
void remove_ucx_folder() noexcept;

// Removes UCX's shared memory of this user's dead processes from /dev/shm. For a program that outlives them.
void remove_ucx_leftovers() noexcept;

// Returns the lock that UcxWorker holds while it opens.
std::unique_lock<std::timed_mutex> begin_ucx_opening();

}  // namespace pipetrain
