#include "bindings/guest/guest_compute.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {

namespace {

std::string text_of_cause(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "code threw an object that is no exception";
  }
}

template <class Answer>
void answer_if_heard(Answer answer) noexcept {
  try {
    answer();
  } catch (const Error&) {  // the pipeline has gone meanwhile
  }
}

}  // namespace

GuestCompute::GuestCompute(Guest guest, std::shared_ptr<GuestAnswers> stage, std::shared_ptr<CallbackWatch> watch,
                           std::shared_ptr<ActionThreads> any)
    : guest_(std::move(guest.stage)), stage_(std::move(stage)), watch_(std::move(watch)) {
  if (guest.acts == Guest::Acts::launches) return;
  threads_ = guest.acts == Guest::Acts::runs_on_any_thread ? std::move(any) : std::make_shared<ActionThreads>();
  threads_->join(*this);
}

GuestCompute::~GuestCompute() {
  if (!threads_) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  threads_->leave(*this);
}

std::vector<SlotHandle> GuestCompute::make_slots(schedules::InputKind kind, int chunk, int count) {
  const auto call = watched("make_slots");
  return guest_->make_slots(kind, chunk, count);
}

void GuestCompute::begin_step(const StepInfo& step) {
  const auto call = watched("begin_step");
  guest_->begin_step(step);
}

void GuestCompute::launch(const Launch& launch) {
  stage_->launched(launch.action);
  if (threads_) return threads_->add(*this, launch);
  const auto call = watched("launch", &launch.action);
  guest_->launch(launch);
}

void GuestCompute::verdict(const Verdict& verdict) {
  const auto call = watched("verdict");
  guest_->verdict(verdict);
}

void GuestCompute::abort(std::exception_ptr cause) noexcept {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
  if (threads_) threads_->look_again();
  const auto call = watched("abort");
  guest_->abort(text_of_cause(cause));
}

// After an abort an action computes nothing and answers at once.
void GuestCompute::act(const Launch& launch) noexcept {
  bool skip = false;
  {
    const std::lock_guard lock(mutex_);
    skip = aborted_;
  }
  ActionTimes times;
  StageResult result;
  if (!skip) run(launch, times, result);
  answer_if_heard([&] { stage_->ran(launch.action, times, std::move(result)); });
}

void GuestCompute::run(const Launch& launch, ActionTimes& times, StageResult& result) {
  times.start = std::chrono::steady_clock::now();
  try {
    const auto call = watched("", &launch.action);
    result = guest_->run(launch);
  } catch (...) {
    answer_if_heard([&] { stage_->failed(std::current_exception()); });
    // An answer would send an output without data, and other stages would fail, too.
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || aborted_; });
  }
  times.end = std::chrono::steady_clock::now();
}

}  // namespace pipetrain
