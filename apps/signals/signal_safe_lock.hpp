// A lock that a handler of SIGINT, SIGTERM or SIGHUP can take.
#pragma once

#include <atomic>
#include <csignal>

namespace pipetrain {

// For std::lock_guard. These signals are blocked for a thread that waits for the lock or holds it: a handler never
// interrupts the holder, and so may wait for it. Hold it for moments only; not recursive.
class SignalSafeLock {
 public:
  void lock();
  void unlock();
  // For code that ends the process: takes the lock and never releases it. Several threads that end the process share
  // it, so their work must be safe to do twice. Returns false if a holder keeps it for two seconds (a file system
  // hangs), because the requested end must come. Async-signal-safe.
  bool lock_for_good();

 private:
  enum class State { free, held, held_for_good };
  bool take(State as);

  std::atomic<State> state_{State::free};
  static_assert(std::atomic<State>::is_always_lock_free, "used in a signal handler");
  sigset_t mask_{};  // the holder's mask before it took the lock
};

}  // namespace pipetrain
