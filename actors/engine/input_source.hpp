// What feeds a pipeline: tokens for the first virtual stage, targets for the last. A pipeline asks one source per replica.
#pragma once

#include "actors/engine/stage_compute.hpp"

namespace pipetrain {

// Where the microbatches of one replica come from. Called by the feeder actor, one call at a time; must not block for long.
class InputSource {
 public:
  virtual ~InputSource() = default;
  // Puts microbatch `microbatch` of the step into every lane of the slot: tokens for InputKind::activation, targets for
  // InputKind::target; sets the lanes' shapes and, where a lane has events, waits for `free` and records `ready`. What it
  // throws ends the run.
  virtual void fill(schedules::InputKind kind, const StepInfo& step, int microbatch, Slot& slot) = 0;
  // All of this step has been filled: time to get ready for the one that may come next. Must not throw.
  virtual void look_ahead(const StepInfo&) {}
};

}  // namespace pipetrain
