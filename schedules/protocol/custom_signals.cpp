#include "schedules/protocol/custom_signals.hpp"

#include "schedules/plan/check_customs.hpp"

namespace pipetrain::schedules {

std::string CustomSignals::describe(const Plan& plan, int custom) const {
  const std::string text = custom_name(plan, custom);
  if (has_all(custom)) return text + " can be launched";
  std::string awaited;
  for (const StageAction& one : waits_.awaited_by(custom))
    awaited += (awaited.empty() ? "" : " and ") + std::to_string(one.stage) + ":" + to_string(one.action, plan.form());
  return text + " waits for " + awaited + ": " + std::to_string(signals_[static_cast<std::size_t>(custom)]) + " of " +
         std::to_string(waits_.count(custom)) + " have come";
}

}  // namespace pipetrain::schedules
