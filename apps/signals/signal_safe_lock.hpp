// A lock that a handler of SIGINT, SIGTERM or SIGHUP can take.
#pragma once

#include <atomic>
#include <csignal>

namespace pipetrain {

// For std::lock_guard. The thread that waits for it or holds it hears none of them meanwhile: a handler never interrupts the
// holder, and so may wait for it. Held for moments only; not recursive.
class SignalSafeLock {
 public:
  void lock();
  void unlock();
  // For who ends the process: takes the lock and never gives it back; whoever else ends it shares it, so what is done then must
  // bear being done twice. False when a holder keeps it for two seconds (a file system hangs), because an end that was asked
  // for must come. Async-signal-safe.
  bool lock_for_good();

 private:
  enum class State { free, held, held_for_good };
  bool take(State as);

  std::atomic<State> state_{State::free};
  static_assert(std::atomic<State>::is_always_lock_free, "used in a signal handler");
  sigset_t mask_{};  // the holder's, from before
};

}  // namespace pipetrain
