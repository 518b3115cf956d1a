// Waits for the effect of another thread or process that gives no notice of it.
#pragma once

#include <chrono>
#include <thread>

namespace pipetrain::test {

// Checks every two milliseconds whether the condition holds, and returns whether it did within the limit, which only a
// failing test reaches. Checks once more after the limit, so that a thread that was kept from running does not fail.
template <class Condition>
bool wait_until(const Condition& condition, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    const bool late = std::chrono::steady_clock::now() > end;
    if (condition()) return true;
    if (late) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace pipetrain::test
