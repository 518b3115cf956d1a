// The copies of ranks' states when a membership begins: its processes agree who runs which rank, and each gets the copies
// that its ranks continue from.
#pragma once

#include <map>
#include <memory>

#include "actors/training/copies/agreement.hpp"
#include "actors/training/copies/state_copies.hpp"

namespace pipetrain {

class EngineChannel;
struct TrainJob;

// By rank; of the ranks whose states a process copies, or has copied.
using CopiesByRank = std::map<int, std::shared_ptr<StateCopies>>;

// Returns the copies of a rank, none at first.
std::shared_ptr<StateCopies> copies_of(int rank, CopiesByRank& copies);

// Agrees with the other processes, who call it at the same time, and exchanges copies: afterwards `copies` has a whole
// copy after the agreed step for each rank that this process is to run. runs: the ranks that this process has run so far.
// channel: null where this process is alone. Throws Error: peer_lost where a state is lost with all its copies, and as
// EngineChannel::exchange(); out_of_memory.
Agreement gather_copies(EngineChannel* channel, const TrainJob& job, const std::vector<int>& runs, CopiesByRank& copies);

}  // namespace pipetrain
