#include "apps/signals/signal_safe_lock.hpp"

#include <poll.h>

namespace pipetrain {
namespace {

constexpr int lock_patience_ms = 2000;

// poll() is async-signal-safe; the library's sleep functions need not be.
void sleep_one_ms() { ::poll(nullptr, 0, 1); }

}  // namespace

bool SignalSafeLock::take(State as) {
  State free = State::free;
  return state_.compare_exchange_strong(free, as);
}

void SignalSafeLock::lock() {
  sigset_t stops, before;
  sigemptyset(&stops);
  sigaddset(&stops, SIGINT);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &stops, &before);
  while (!take(State::held)) sleep_one_ms();
  mask_ = before;
}

void SignalSafeLock::unlock() {
  const sigset_t before = mask_;
  state_ = State::free;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool SignalSafeLock::lock_for_good() {
  for (int waited = 0; state_ != State::held_for_good && !take(State::held_for_good); ++waited) {
    if (waited == lock_patience_ms) return false;
    sleep_one_ms();
  }
  return true;
}

}  // namespace pipetrain
