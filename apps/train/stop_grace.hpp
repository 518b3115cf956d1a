// Decides whether a stopped run still finishes its step, or saves the step before it: its launcher kills it a while after the
// signal. Launchers send SIGTERM, or pass on the signal that they got (torchrun).
#pragma once

#include <atomic>
#include <chrono>
#include <optional>

namespace pipetrain {

// Thread-safe.
class StopGrace {
 public:
  using Seconds = std::chrono::duration<double>;

  // Between the signal and SIGKILL; nothing where it is not known that a launcher kills at all.
  explicit StopGrace(std::optional<std::chrono::seconds> grace) : grace_(grace) {}

  const std::optional<std::chrono::seconds>& grace() const { return grace_; }
  void step_took(double seconds) { step_seconds_ = seconds; }

  // Whether nine tenths of the grace are enough for one step like the last one and, where the run is saved, for a save like the
  // last one; half of the grace is kept for a save that nothing is known of. True before the first step is done: nothing can be
  // lost.
  bool fits_step(bool saves, const std::optional<Seconds>& save_time) const;

 private:
  const std::optional<std::chrono::seconds> grace_;
  std::atomic<double> step_seconds_{0};
};

}  // namespace pipetrain
