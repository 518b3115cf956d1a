// Checks the SEND and RECV cells of PyTorch's schedule CSV. Here data is sent as soon as it is made, so these cells decide
// nothing; but a file whose transfers do not match its compute is not the intended schedule. Internal to schedules/.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// SEND_F and RECV_F carry activations, SEND_B and RECV_B their gradients. The number is the virtual stage that sends
// its result or receives its input.
struct TransferCell {
  int virtual_stage = 0;
  bool sends = false;
  bool of_gradient = false;
  int microbatch = 0;
  std::int32_t place = 0;  // number of actions before it in the rank's list
};

// cells: by rank, in the order of its row; `plan` has passed check_plan(). Does nothing where there are no cells.
// Otherwise every cell must name a virtual stage of its rank and a microbatch of the plan, occur once and have its
// partner on another rank; sends must come after the action that computes their data and receives before the one that
// uses it; every input from another rank must be received; and all rows must reach their end when sends and receives
// return at once and compute waits for its inputs. Throws InvalidPlan.
void check_transfers(const Plan& plan, const std::vector<std::vector<TransferCell>>& cells);

}  // namespace pipetrain::schedules
