// Two threads that enqueue in turns, as the two actions of a braid do, so that each one's transfers overlap with the
// other's work.
#pragma once

#include <functional>
#include <semaphore>
#include <thread>

namespace pipetrain::test {

// Passes the turn to the other thread, and returns when it comes back.
using Pass = std::function<void()>;

// Runs both, never at the same time; the first begins. When one has ended, the other one keeps the turn.
inline void in_turns(const std::function<void(const Pass& pass)>& first, const std::function<void(const Pass& pass)>& second) {
  constexpr int for_good = 1 << 20;
  std::counting_semaphore<> of_first{0}, of_second{0};
  std::thread other([&] {
    of_second.acquire();
    second([&] { of_first.release(), of_second.acquire(); });
    of_first.release(for_good);
  });
  first([&] { of_second.release(), of_first.acquire(); });
  of_second.release(for_good);
  other.join();
}

}  // namespace pipetrain::test
