// Finds what each action of a real step waited for last, from the times at which one replica's outputs were made.
#pragma once

#include <limits>
#include <vector>

#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

// Call note() for every span of the replica first, then ask. Not thread-safe.
class OutputTimes {
 public:
  // The placement must outlive it.
  OutputTimes(const Placement& placement, int microbatches);

  static constexpr double never = -std::numeric_limits<double>::infinity();

  void note(int stage, const Span& span);
  // Returns what arrived last before the start of an action whose stage was free from `free` on (never: from the beginning).
  WaitedFor waited_for(int stage, const Span& span, double free) const;

 private:
  using Times = std::vector<std::vector<double>>;  // [virtual stage][microbatch]

  const Placement& placement_;
  Times forwards_, gradients_;
  double last_norm_ = never;
};

}  // namespace pipetrain::schedules
