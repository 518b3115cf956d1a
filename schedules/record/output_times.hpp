// Of a real run's step: when the outputs of one replica were made, and so what each action waited for last.
#pragma once

#include <limits>
#include <vector>

#include "schedules/simulate/timeline.hpp"

namespace pipetrain::schedules {

// note() every span of the replica first, then ask. Not thread-safe.
class OutputTimes {
 public:
  // The placement outlives it.
  OutputTimes(const Placement& placement, int microbatches);

  static constexpr double never = -std::numeric_limits<double>::infinity();

  void note(int stage, const Span& span);
  // What came last before the start of an action whose stage was free from `free` on (never: from the beginning).
  WaitedFor waited_for(int stage, const Span& span, double free) const;

 private:
  using Times = std::vector<std::vector<double>>;  // [virtual stage][microbatch]

  const Placement& placement_;
  Times forwards_, gradients_;
  double last_norm_ = never;
};

}  // namespace pipetrain::schedules
