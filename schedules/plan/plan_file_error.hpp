// What is wrong with the text of a plan.
#pragma once

#include <stdexcept>

namespace pipetrain::schedules {

// One line: file, line, the action and the rule it breaks.
class PlanFileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace pipetrain::schedules
