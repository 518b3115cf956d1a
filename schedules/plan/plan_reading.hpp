// Functions that the readers of both plan formats share. Internal to schedules/.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "schedules/plan/field_reader.hpp"
#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

// Returns a whole number, or no value.
std::optional<int> to_number(std::string_view text);

// Counts the contents of a file before any are kept, and fails when they exceed what a plan may have.
class PlanSize {
 public:
  explicit PlanSize(const FieldReader& reader) : reader_(reader) {}
  void add_stage();
  void add_action();
  // Counts an entry that is kept only for checks.
  void add_transfer();
  std::int64_t stages() const { return static_cast<std::int64_t>(actions_.size()); }
  std::int64_t actions(std::size_t stage) const { return actions_[stage]; }
  // Call this before making a placement of this size: each chunk has at least one action.
  void check(int chunks, int microbatches) const;

 private:
  const FieldReader& reader_;
  std::vector<std::int64_t> actions_;  // per stage
  std::int64_t all_ = 0, transfers_ = 0;
};

// Runs check_plan(), then `more`; a broken rule becomes an error at the line of the stage's list.
void check_read_plan(const Plan& plan, const FieldReader& reader, const std::vector<int>& lines,
                     const std::function<void()>& more = nullptr);

}  // namespace pipetrain::schedules
