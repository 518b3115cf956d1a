// The exception for a faulty text of a plan.
#pragma once

#include <stdexcept>

namespace pipetrain::schedules {

// what() is one line: file, line, the action and the rule that it breaks.
class PlanFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace pipetrain::schedules
