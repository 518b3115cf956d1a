// Provokes in one rank the fault that PIPETRAIN_FAULT names.
#pragma once

#include <functional>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

// Does nothing where the setup has no fault. Used by the rank's worker.
class RankFault {
 public:
  // Both arguments outlive this; `compute` is the stream that the rank computes on.
  RankFault(const RankSetup& setup, Stream& compute) : setup_(setup), compute_(compute) {}

  // Provokes the fault where it is of this step, which has begun. `spoil` makes a weight NaN. Throws what the fault is to
  // throw.
  void begin_step(const StepInfo& step, const std::function<void()>& spoil);
  // Makes the stream take longer for an action of this step where the fault is that the rank is slow.
  void delay(const StepInfo& step);

 private:
  void provoke(const Fault& fault, const std::function<void()>& spoil);

  const RankSetup& setup_;
  Stream& compute_;
};

}  // namespace pipetrain
