#include "actors/training/action_clock.hpp"

#include <utility>

#include "core/error.hpp"

namespace pipetrain {

void ActionClock::begin_step(Stream& stream) {
  collect();
  done_.clear();
  device_.align_clock(stream);
}

void ActionClock::start(Stream& stream, const schedules::Action& action) {
  if (spare_.empty()) spare_.push_back({device_.make_timing_event(), device_.make_timing_event()});
  running_.push_back({action, std::move(spare_.back()), {}});
  spare_.pop_back();
  stream.record(*running_.back().events.start);
}

void ActionClock::end(Stream& stream) {
  stream.record(*running_.back().events.end);
  running_.back().issued = std::chrono::steady_clock::now();
}

void ActionClock::collect() {
  while (!running_.empty() && running_.front().events.end->query()) {
    Running first = std::move(running_.front());
    running_.pop_front();
    done_.push_back({first.action, times_of(first.events), first.issued});
    spare_.push_back(std::move(first.events));
  }
}

ActionTimes ActionClock::times_of(const Events& events) const {
  try {
    return {device_.time_of(*events.start), device_.time_of(*events.end)};
  } catch (const Error&) {  // the device failed: its streams report it
    return {};
  }
}

}  // namespace pipetrain
