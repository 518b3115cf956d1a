// Decides whether a stopped run still finishes its step, or saves the previous one, because its launcher kills it some
// time after the signal. Launchers send SIGTERM, or pass on the signal that they received (torchrun).
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace pipetrain {

// Thread-safe.
class StopGrace {
 public:
  using Seconds = std::chrono::duration<double>;

  // grace: the time between the signal and SIGKILL; nothing if no launcher is known to kill.
  explicit StopGrace(std::optional<std::chrono::seconds> grace) : grace_(grace) {}

  const std::optional<std::chrono::seconds>& grace() const { return grace_; }
  void step_took(double seconds) { step_seconds_ = seconds; }

  // Returns true if nine tenths of the grace are enough for one step like the last one and, if the run is saved, for a
  // save like the last one; half of the grace is reserved for a save if none has been timed. True before the first step
  // is done, since nothing can be lost.
  bool fits_step(bool saves, const std::optional<Seconds>& save_time) const;

 private:
  const std::optional<std::chrono::seconds> grace_;
  std::atomic<double> step_seconds_{0};
};

}  // namespace pipetrain
