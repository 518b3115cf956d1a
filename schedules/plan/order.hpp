// Order says how a stage chooses its next action.
#pragma once

namespace pipetrain::schedules {

enum class Order {
  planned,  // the next of the plan's list, once its inputs and credits are there
  ready,    // the plan's ReadyRule picks among what is ready now
};

}  // namespace pipetrain::schedules
