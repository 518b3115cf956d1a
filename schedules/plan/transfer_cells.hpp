// The SEND and RECV cells of PyTorch's schedule CSV. Here data is pushed as soon as it is there, so that they choose nothing;
// but a file whose transfers do not fit its compute is not the schedule that it was meant to be. Internal to schedules/.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// SEND_F and RECV_F carry activations, SEND_B and RECV_B their gradients. The number is that of the virtual stage that sends
// what it has computed, or receives what it is about to use.
struct TransferCell {
  int virtual_stage = 0;
  bool sends = false;
  bool of_gradient = false;
  int microbatch = 0;
  std::int32_t place = 0;  // how many actions of the rank's list stand before it
};

// By rank, in the order of its row; `plan` has passed check_plan(). Does nothing where there are none at all. Else every cell
// must name a virtual stage of its rank and a microbatch of the plan, stand there once and have its partner on another rank,
// sends stand behind what computes their data and receives before what uses it, every input from another rank be received, and
// the rows come to their end when sends and receives return at once, and compute waits for what it uses. Throws InvalidPlan.
void check_transfers(const Plan& plan, const std::vector<std::vector<TransferCell>>& cells);

}  // namespace pipetrain::schedules
