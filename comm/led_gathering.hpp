// A gathering as its leader sees it: who may come, when it begins, and which processes end because they are left out.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "comm/gathering.hpp"

namespace pipetrain {

// In the leader's table of processes it has place 0, and the others keep the order of their first numbers. Not thread-safe.
class LedGathering {
 public:
  using Clock = std::chrono::steady_clock;
  using IsHere = std::function<bool(int place)>;

  // The gathering must outlive this.
  LedGathering(const Gathering& gathering, Clock::time_point begin);

  bool is_member(int process) const;  // or becomes one
  int place_of(int process) const;
  // True when it may begin with the members that are here: see may_begin().
  bool may_begin(const IsHere& is_here, Clock::time_point now) const;
  // Ends members that are known to be lost, once their time is over.
  void end_lost(Clock::time_point now) const;
  // Ends the members of this machine that are left out, because a stopped one would keep its memory, its locks and its
  // processors' time.
  void end_absent(const IsHere& is_here) const;

 private:
  std::vector<int> here(const IsHere& is_here) const;

  const Gathering& gathering_;
  Clock::time_point patience_over_, lost_over_;
};

}  // namespace pipetrain
