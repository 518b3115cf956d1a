// Order says how a stage chooses its next action.
#pragma once

namespace pipetrain::schedules {

enum class Order {
  planned,  // the next action of the plan's list, once its inputs and credits are available
  ready,    // the plan's ReadyRule chooses among the actions that are ready now
};

}  // namespace pipetrain::schedules
