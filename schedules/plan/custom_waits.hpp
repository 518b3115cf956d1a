// The waits of a plan's custom actions: for the actions that they come after, and for earlier users of their resources.
// Internal to schedules/.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/plan/plan.hpp"

namespace pipetrain::schedules {

class CustomWaits {
 public:
  // The plan must have passed check_customs().
  explicit CustomWaits(const Plan& plan);

  bool empty() const { return waits_.empty(); }
  // Returns the number of actions of other stages that this one waits for.
  int count(int number) const { return counts_[static_cast<std::size_t>(number)]; }
  // Returns the numbers of the custom actions on other stages that wait for the end of this action.
  std::span<const std::int32_t> waiting_for(int stage, const Action& action) const;
  // Returns the actions of other stages that this one waits for.
  std::vector<StageAction> awaited_by(int number) const;

 private:
  struct Wait {
    StageAction awaited;
    std::int32_t number = 0;
  };

  std::vector<Wait> waits_;            // sorted by the awaited action, then by number
  std::vector<std::int32_t> numbers_;  // of waits_
  std::vector<int> counts_;            // by number
};

// Visits all waits of a plan, also those within a stage: work(number, awaited action).
template <class Work>
void each_custom_wait(const Plan& plan, const Work& work) {
  std::map<std::string_view, int> holders;  // the last user of each resource
  for (int number = 0; number < static_cast<int>(plan.custom.size()); ++number) {
    const CustomAction& one = plan.custom[static_cast<std::size_t>(number)];
    for (const StageAction& awaited : one.after) work(number, awaited);
    for (const std::string& resource : one.resources) {
      const int before = std::exchange(holders.try_emplace(resource, number).first->second, number);
      if (before == number) continue;
      work(number, StageAction{plan.custom[static_cast<std::size_t>(before)].stage, {ActionKind::custom, 0, before}});
    }
  }
}

}  // namespace pipetrain::schedules
