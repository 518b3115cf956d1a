// The copies of ranks' states when a membership begins: its processes agree who runs which rank, and each gets the copies
// that its ranks continue from.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "actors/training/copies/agreement.hpp"
#include "actors/training/copies/state_copies.hpp"
#include "actors/training/copies/step_records.hpp"

namespace pipetrain {

class EngineChannel;
struct TrainJob;

// The copies that a process keeps from one membership to the next.
struct KeptCopies {
  std::vector<int> runs;                                // the ranks that it runs, or ran in the membership before
  std::map<int, std::shared_ptr<StateCopies>> by_rank;  // of ranks whose states it copies, or has copied or received
  std::map<int, int> equal_rank;  // ranks that continue from the copy of this rank, which has an equal state
  std::shared_ptr<StepRecords> records = std::make_shared<StepRecords>();
  CopyMemory memory = CopyMemory::own;  // of copies that this process makes

  // Returns the copies of a rank, none at first.
  std::shared_ptr<StateCopies> of_rank(int rank);
  // Returns those that the rank continues from.
  std::shared_ptr<StateCopies> continued_by(int rank);
};

// Gives this process the copies, made or not yet, of all ranks that others run, where all processes are on one host and share
// the memory of copies: it has them when a process that ran such a rank is gone. All processes call it at the same time, once
// they have reserved the memory of the copies of the ranks that they run. Throws as EngineChannel::exchange() and
// SharedMemory::open().
void open_shared_copies(EngineChannel& channel, const std::vector<int>& runs, KeptCopies& kept);

// Agrees with the other processes, who call it at the same time, and exchanges copies: afterwards `kept` has a whole
// copy after the agreed step for each rank that this process is to run, or for another one with an equal state, and the record
// of that step. channel: null where this process is alone. Throws Error: peer_lost where a state is lost with all its copies,
// and as EngineChannel::exchange(); out_of_memory.
Agreement gather_copies(EngineChannel* channel, const TrainJob& job, KeptCopies& kept);

}  // namespace pipetrain
