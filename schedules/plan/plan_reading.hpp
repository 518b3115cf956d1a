// What the readers of both plan formats share. Internal to schedules/.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "schedules/plan/field_reader.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// A whole number, or nothing.
std::optional<int> to_number(std::string_view text);

// Counts what a file holds before any of it is kept, and fails when that is more than any plan may have.
class PlanSize {
 public:
  explicit PlanSize(const FieldReader& reader) : reader_(reader) {}
  void add_stage();
  void add_action();
  // What is kept beside the actions while it is checked.
  void add_transfer();
  std::int64_t stages() const { return static_cast<std::int64_t>(actions_.size()); }
  std::int64_t actions(std::size_t stage) const { return actions_[stage]; }
  // Before a placement of so many is made: each has at least one action.
  void check(int chunks, int microbatches) const;

 private:
  const FieldReader& reader_;
  std::vector<std::int64_t> actions_;  // per stage
  std::int64_t all_ = 0, transfers_ = 0;
};

// check_plan(), and then `more`: what breaks a rule becomes an error at the line of the stage's list.
void check_read_plan(const Plan& plan, const FieldReader& reader, const std::vector<int>& lines,
                     const std::function<void()>& more = nullptr);

}  // namespace pipetrain::schedules
