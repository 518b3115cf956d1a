// The agreement of a membership's processes on who runs which rank, and from which copies ranks continue. Pure: every
// process computes the same from the same holdings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// The ranks that a process ran in the membership before, the whole copies of states that it has, and its records of the
// run's progress.
struct Holdings {
  std::vector<int> runs;
  std::map<int, std::vector<std::int64_t>> copies;  // by rank: the steps, the newest first
  std::map<std::int64_t, Bytes> records;            // by step: see StepRecords
};

Bytes to_bytes(const Holdings& holdings);
// Throws Error(peer_lost) for bytes that are no holdings of a mesh with this many ranks.
Holdings read_holdings(const Bytes& bytes, int ranks);

// Ranks whose states are equal after each step: those of all replicas, where replicas do not divide states.
std::vector<int> ranks_with_state_of(int rank, const Mesh& mesh, bool divided);

// A rank continues from the copy of another rank's equal state, or of its own, that a process has.
struct CopySource {
  int process = 0;
  int rank = 0;
  bool operator==(const CopySource&) const = default;
};

// Returns a rank of each state that the process runs.
std::vector<int> states_of_process(int process, const Mesh& mesh, bool divided);
// True when the ranks with some state all run in one of several processes.
bool loses_states_with_process(const Mesh& mesh, bool divided);

struct Agreement {
  std::int64_t step = 0;            // after which all ranks continue
  bool from_start = false;          // no step has begun: ranks continue from the state that the job begins with
  std::vector<int> process_of;      // by rank
  std::vector<CopySource> sources;  // by rank; empty where ranks continue from the start
  std::vector<int> lost;            // the ranks that no process ran
  std::vector<int> moved;           // the ranks that another process ran
  Bytes record;                     // of the run's progress after the step; empty where nobody has one
};

struct Dealing {
  int spares = 0;             // processes that get ranks of lost processes alone
  bool whole_stages = false;  // the ranks of a stage must be in one process
};

// Ranks stay with their processes. The lost ranks of a stage go together to one process: one that does not run a rank
// with an equal state, if there is one, so that the next loss finds a copy too; of several the one with the fewest ranks.
// Where processes have no rank, all but the spare ones then take half of the ranks of the process with most. No value where
// there is no step after which somebody has every state, though there are copies, or though nobody that is left ran a rank,
// so that steps may have been done: `missing` then names a rank without a copy.
std::optional<Agreement> agree(const std::vector<Holdings>& processes, const Mesh& mesh, bool divided,
                               const Dealing& dealing = {}, int* missing = nullptr);

}  // namespace pipetrain
