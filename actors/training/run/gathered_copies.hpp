// The copies of ranks' states when a membership begins: its processes agree who runs which rank, and each gets the copies
// that its ranks continue from.
#pragma once

#include <functional>
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
  std::function<Buffer(int rank, std::size_t bytes)> allocate = {};  // null: see plain_copy_memory()

  // Returns the copies of a rank, none at first.
  std::shared_ptr<StateCopies> of_rank(int rank);
  // Returns those that the rank continues from.
  std::shared_ptr<StateCopies> continued_by(int rank);
};

// Agrees with the other processes, who call it at the same time, and exchanges copies: afterwards `kept` has a whole
// copy after the agreed step for each rank that this process is to run, or for another one with an equal state, and the record
// of that step. channel: null where this process is alone. Throws Error: peer_lost where a state is lost with all its copies,
// and as EngineChannel::exchange(); out_of_memory.
Agreement gather_copies(EngineChannel* channel, const TrainJob& job, KeptCopies& kept);

}  // namespace pipetrain
