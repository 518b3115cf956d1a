#include "actors/training/rank/action_clock.hpp"

#include <utility>

#include "core/error.hpp"

namespace pipetrain {

void ActionClock::begin_step(Stream& stream) {
  const std::lock_guard lock(mutex_);
  collect_locked();
  done_ = std::exchange(early_, {});
  for (Running& one : running_) one.of = Running::Of::step;
  if (!std::exchange(began_early_, false)) device_.align_clock(stream);
}

void ActionClock::start(Stream& stream, const schedules::Action& action, bool early) {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) spare_.push_back({device_.make_timing_event(), device_.make_timing_event()});
  running_.push_back({action, std::move(spare_.back()), {}, early ? Running::Of::coming : Running::Of::step});
  spare_.pop_back();
  stream.record(*running_.back().events.start);
  began_early_ = began_early_ || early;
}

void ActionClock::end(Stream& stream) {
  const std::lock_guard lock(mutex_);
  stream.record(*running_.back().events.end);
  running_.back().issued = std::chrono::steady_clock::now();
  running_.back().ended = true;
}

void ActionClock::forget_early() {
  const std::lock_guard lock(mutex_);
  early_.clear();
  for (Running& one : running_)
    if (one.of == Running::Of::coming) one.of = Running::Of::nothing;
}

void ActionClock::collect() {
  const std::lock_guard lock(mutex_);
  collect_locked();
}

std::vector<DeviceAction> ActionClock::actions() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

void ActionClock::collect_locked() {
  while (!running_.empty() && running_.front().ended && running_.front().events.end->query()) {
    Running first = std::move(running_.front());
    running_.pop_front();
    if (first.of != Running::Of::nothing)
      (first.of == Running::Of::step ? done_ : early_).push_back({first.action, times_of(first.events), first.issued});
    spare_.push_back(std::move(first.events));
  }
}

ActionTimes ActionClock::times_of(const Events& events) const {
  const auto time_of = [this](const Event& event) {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(device_.steady_nanoseconds(event)));
  };
  try {
    return {time_of(*events.start), time_of(*events.end)};
  } catch (const Error&) {  // the device failed: its streams report that
    return {};
  }
}

}  // namespace pipetrain
