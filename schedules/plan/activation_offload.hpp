// Adds moves of activations out of the device (P) and back (G) to a plan.
//
// As in PipeOffload (Wan et al. 2025, arXiv 2503.01328): the activations with the longest time between F and B save
// most and hide best. While every F + B of a stage moves no more than can be transferred in that time, all transfers
// overlap with compute.
#pragma once

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Returns the plan with a P directly after the F of each microbatch that moves, and its G early enough before B or I to
// hide a transfer as long as F + I + W. On each stage at most this fraction (0 to 1) of the microbatches of all chunks
// moves: of the chunks that wait longest, and evenly spread within a chunk. Microbatches that wait less than two such
// transfers stay, and all of a stage stay where moves would free no memory. The result has no ready rule. Throws
// std::invalid_argument, one line, where none waits that long, or the plan has moves already.
Plan offload_activations(Plan plan, double fraction);

// True when the plan has P or G.
bool moves_activations(const Plan& plan);

}  // namespace pipetrain::schedules
