#include "actors/training/input/input_wait.hpp"

#include <algorithm>

namespace pipetrain {

void ReadTimes::add(std::int64_t step, Clock::time_point begin, Clock::time_point end) {
  const std::scoped_lock lock(mutex_);
  reads_.push_back({step, {begin, end}});
}

std::vector<ActionTimes> ReadTimes::take(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  std::vector<ActionTimes> times;
  for (const Read& read : reads_) {
    if (read.step == step) times.push_back(read.times);
  }
  std::erase_if(reads_, [&](const Read& read) { return read.step <= step; });
  return times;
}

double input_wait(const std::vector<ActionTimes>& reads, const StageTrace& stage, ReadTimes::Clock::time_point begin) {
  std::vector<ActionTimes> actions;
  for (const TracedAction& action : stage.actions) actions.push_back(action.times);
  std::sort(actions.begin(), actions.end(), [](const auto& one, const auto& other) { return one.start < other.start; });
  std::vector<ActionTimes> idle;
  auto free = begin;
  for (const ActionTimes& action : actions) {
    if (action.start > free) idle.push_back({free, action.start});
    free = std::max(free, action.end);
  }
  double seconds = 0;
  for (const ActionTimes& read : reads) {
    for (const ActionTimes& gap : idle) {
      const auto overlap = std::min(read.end, gap.end) - std::max(read.start, gap.start);
      seconds += std::max(0.0, std::chrono::duration<double>(overlap).count());
    }
  }
  return seconds;
}

}  // namespace pipetrain
