#include "schedules/plan/custom_waits.hpp"

#include <algorithm>
#include <tuple>

namespace pipetrain::schedules {

namespace {

auto key(const StageAction& one) { return std::tuple(one.stage, one.action.kind, one.action.chunk, one.action.microbatch); }

}  // namespace

CustomWaits::CustomWaits(const Plan& plan) : counts_(plan.custom.size()) {
  each_custom_wait(plan, [&](int number, const StageAction& awaited) {
    if (awaited.stage != plan.custom[static_cast<std::size_t>(number)].stage) waits_.push_back({awaited, number});
  });
  const auto order = [](const Wait& wait) { return std::tuple(key(wait.awaited), wait.number); };
  std::sort(waits_.begin(), waits_.end(), [&](const Wait& a, const Wait& b) { return order(a) < order(b); });
  const auto same = [&](const Wait& a, const Wait& b) { return order(a) == order(b); };
  waits_.erase(std::unique(waits_.begin(), waits_.end(), same), waits_.end());
  for (const Wait& wait : waits_) {
    numbers_.push_back(wait.number);
    ++counts_[static_cast<std::size_t>(wait.number)];
  }
}

std::span<const std::int32_t> CustomWaits::waiting_for(int stage, const Action& action) const {
  const auto wanted = key({stage, action});
  const auto first =
      std::partition_point(waits_.begin(), waits_.end(), [&](const Wait& wait) { return key(wait.awaited) < wanted; });
  const auto last = std::partition_point(first, waits_.end(), [&](const Wait& wait) { return key(wait.awaited) == wanted; });
  return std::span(numbers_).subspan(static_cast<std::size_t>(first - waits_.begin()), static_cast<std::size_t>(last - first));
}

std::vector<StageAction> CustomWaits::awaited_by(int number) const {
  std::vector<StageAction> awaited;
  for (const Wait& wait : waits_)
    if (wait.number == number) awaited.push_back(wait.awaited);
  return awaited;
}

}  // namespace pipetrain::schedules
