#include "bindings/guest/guest_answers.hpp"

#include <algorithm>
#include <utility>

#include "bindings/guest/misuse.hpp"

namespace pipetrain {

using schedules::Action;

std::string name_of(const StageId& id) {
  return "stage " + std::to_string(id.stage) + (id.replica > 0 ? " of replica " + std::to_string(id.replica) : "");
}

void GuestAnswers::enqueued(const Action& action) {
  const std::lock_guard lock(mutex_);
  StageEvents& events = this->events();
  const auto running = find(action);
  if (running == running_.end()) refuse(action, "enqueued", "it is not launched");
  if (running->enqueued) refuse(action, "enqueued", "it has been already");
  running->enqueued = true;
  events.enqueued(action);
}

void GuestAnswers::completed(const Action& action, const ActionTimes& times, StageResult result) {
  const std::lock_guard lock(mutex_);
  StageEvents& events = this->events();
  const auto running = find(action);
  if (running == running_.end()) refuse(action, "completed", "it is not launched, or has completed already");
  if (!running->enqueued) refuse(action, "completed", "it has not been enqueued");
  check_end(action, "completed", times, result);
  const auto launched = running->launched;
  running_.erase(running);
  const bool measured = times.start != std::chrono::steady_clock::time_point{} || times.end != times.start;
  events.completed(action, measured ? times : ActionTimes{launched, std::chrono::steady_clock::now()}, std::move(result));
}

void GuestAnswers::ran(const Action& action, const ActionTimes& times, StageResult result) {
  std::shared_ptr<StageEvents> events;
  {
    const std::lock_guard lock(mutex_);
    this->events();  // or throws
    events = events_;
    const auto running = find(action);
    if (running == running_.end()) refuse(action, "ran", "it is not launched, or has completed already");
    if (running->enqueued) refuse(action, "ran", "it has been enqueued already");
    check_end(action, "ran", times, result);
    running_.erase(running);
  }
  events->ran(action, times, std::move(result));
}

void GuestAnswers::failed(std::exception_ptr cause) {
  const std::lock_guard lock(mutex_);
  events().failed(std::move(cause));
}

void GuestAnswers::open(std::shared_ptr<StageEvents> events) {
  const std::lock_guard lock(mutex_);
  events_ = std::move(events);
}

void GuestAnswers::close() {
  const std::lock_guard lock(mutex_);
  events_.reset();
}

void GuestAnswers::launched(const Action& action) {
  const std::lock_guard lock(mutex_);
  running_.push_back({action, std::chrono::steady_clock::now()});
}

void GuestAnswers::refuse(const Action& action, const char* call, const char* why) const {
  throw Misuse(std::string(call) + " " + to_string(action, 2) + " on " + name_of(id_) + ": " + why);
}

void GuestAnswers::check_end(const Action& action, const char* call, const ActionTimes& times,
                             const StageResult& result) const {
  if (!result.empty() && action.kind != schedules::ActionKind::norm) refuse(action, call, "only N has results");
  if (times.end < times.start) refuse(action, call, "its end is before its start");
}

StageEvents& GuestAnswers::events() const {
  if (!events_) throw Misuse(name_of(id_) + ": its pipeline is gone");
  return *events_;
}

std::vector<GuestAnswers::Running>::iterator GuestAnswers::find(const Action& action) {
  return std::find_if(running_.begin(), running_.end(), [&](const Running& one) { return one.action == action; });
}

}  // namespace pipetrain
