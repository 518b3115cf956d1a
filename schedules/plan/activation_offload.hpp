// Where a plan moves what is kept of microbatches out of the device (P) and back (G).
//
// As PipeOffload has it (Wan et al. 2025, arXiv 2503.01328): what lies longest between F and B is worth most and hides best,
// and while every F + B of a stage moves no more than the transfers of that time carry, all of it hides behind compute.
#pragma once

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// The plan with a P directly after the F of what is moved, and its G so early before B or I that a transfer of F + I + W's time
// hides. Of each stage at most this fraction of all microbatches of all chunks moves (0 to 1): those of the chunks that wait
// longest, and within a chunk spread evenly. What waits less than two such transfers stays, and so does all of a stage where
// the moves would free no memory. The result has no ready rule. Throws std::invalid_argument, one line, where nothing waits
// that long, or the plan moves something already.
Plan offload_activations(Plan plan, double fraction);

// Whether it has P or G.
bool moves_activations(const Plan& plan);

}  // namespace pipetrain::schedules
