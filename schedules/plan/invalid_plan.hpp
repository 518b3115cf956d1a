// The exception for a plan that breaks a rule.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace pipetrain::schedules {

// what() names the stage and the action in its first line, and shows the position on the printed grid below it.
class InvalidPlan : public std::runtime_error {
 public:
  // stage: the one whose list is at fault, -1 when it is the whole plan.
  InvalidPlan(std::string fault, int stage, const std::string& grid)
      : std::runtime_error(fault + "\n" + grid), fault_(std::move(fault)), stage_(stage) {}
  const std::string& fault() const noexcept { return fault_; }  // the first line of what()
  int stage() const noexcept { return stage_; }

 private:
  std::string fault_;
  int stage_;
};

}  // namespace pipetrain::schedules
