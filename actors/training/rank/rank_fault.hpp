// Provokes the fault that PIPETRAIN_FAULT names in one rank.
#pragma once

#include <functional>

#include "actors/engine/stage_compute.hpp"
#include "actors/training/rank/rank_setup.hpp"

namespace pipetrain {

// Does nothing where the setup has no fault. Used by the rank's worker.
class RankFault {
 public:
  // Both arguments must outlive this; `compute` is the rank's computing stream.
  RankFault(const RankSetup& setup, Stream& compute) : setup_(setup), compute_(compute) {}

  // Provokes the fault if it is of this step, which has begun. `spoil` makes a weight NaN. Throws if the fault is an exception.
  void begin_step(const StepInfo& step, const std::function<void()>& spoil);
  // Ends the process if the fault is of this step's update, which has been enqueued.
  void after_update(const StepInfo& step) const;
  // Makes the stream take longer for an action of this step if the fault is a slow rank.
  void delay(const StepInfo& step);

 private:
  void provoke(const Fault& fault, const std::function<void()>& spoil);

  const RankSetup& setup_;
  Stream& compute_;
};

}  // namespace pipetrain
