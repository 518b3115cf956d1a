// A change of memberships: the processes that are left have taken over the ranks of those that were lost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pipetrain {

struct Takeover {
  int membership = 0;     // the one that began, counted from 1
  std::int64_t step = 0;  // after which all ranks continue
  std::string cause;      // why the one before ended
  int processes = 0;      // of the new membership
  int joined = 0;         // processes that were not in the one before
  // The ranks that have changed their process, and the processes of the new membership that run them now.
  struct Taken {
    int rank = 0, process = 0;
  };
  std::vector<Taken> taken;
  // Since the failure was known here: until everything of the old membership had ended; until the processes had gathered;
  // until all ranks had their copies; until the new membership could begin its first step.
  double ended = 0, gathered = 0, copied = 0, begun = 0;
};

// Returns one line for people.
std::string to_string(const Takeover& takeover);

}  // namespace pipetrain
