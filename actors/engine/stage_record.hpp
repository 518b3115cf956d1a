// The record that a stage keeps of the actions that it has run: their times, and the log of a recorded run.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "actors/engine/trace.hpp"
#include "schedules/record/log_codec.hpp"

namespace pipetrain {

struct StageRecord {
  std::optional<schedules::StageLogWriter> log;
  std::vector<TracedAction> running, coming;  // by step, in order of completion

  void begin_step() { running = std::exchange(coming, {}); }
  // Returns the log up to now with the times of these actions; an empty one where the run is not recorded.
  schedules::StageLog take_log(const std::vector<TracedAction>& actions) {
    if (!log) return {};
    const auto ns = [](std::chrono::steady_clock::time_point time) {
      return static_cast<std::int64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
    };
    std::vector<schedules::LoggedAction> logged;
    logged.reserve(actions.size());
    for (const TracedAction& one : actions) logged.push_back({one.action, ns(one.times.start), ns(one.times.end)});
    return log->take(logged);
  }
};

}  // namespace pipetrain
