// The calls that whoever runs a step adds around it.
#pragma once

#include <chrono>
#include <functional>

namespace pipetrain {

// All of them run on the thread that called step().
struct StepHooks {
  std::chrono::milliseconds interval{std::chrono::hours(1)};
  std::function<void()> poll = [] {};  // every `interval`; may call abort()
  // Runs once the step is accepted, before any of its actions.
  std::function<void()> begin = [] {};
  // Runs after `begin`, also where that throws or the step fails, and before another step can begin. Must not throw.
  std::function<void()> end = [] {};
};

}  // namespace pipetrain
