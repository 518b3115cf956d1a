// CustomSignals counts the signals that the custom actions of a stage have received. Internal to schedules/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "schedules/plan/custom_waits.hpp"

namespace pipetrain::schedules {

class CustomSignals {
 public:
  explicit CustomSignals(const Plan& plan) : waits_(plan), signals_(plan.custom.size()) {}

  void add(int custom) { ++of(custom); }
  // The action is launched; its next step waits anew.
  void clear(int custom) { of(custom) = 0; }
  bool has_all(int custom) const { return signals_[static_cast<std::size_t>(custom)] == waits_.count(custom); }
  // Returns the custom actions of other stages that wait for this end.
  std::span<const std::int32_t> waiting_for(int stage, const Action& action) const { return waits_.waiting_for(stage, action); }

  // Returns "X2 (send-stats) waits for 0:B1 and 3:F2: 1 of 2 have come".
  std::string describe(const Plan& plan, int custom) const;

 private:
  int& of(int custom) { return signals_[static_cast<std::size_t>(custom)]; }

  CustomWaits waits_;
  std::vector<int> signals_;  // by number
};

}  // namespace pipetrain::schedules
