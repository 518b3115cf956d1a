#include "actors/engine/noop_compute.hpp"

#include <algorithm>

namespace pipetrain {
namespace {

class NoopCompute : public StageCompute {
 public:
  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override { return make_empty_slots(count); }
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo&) override {}
  void launch(const Launch& launch) override {
    events_->enqueued(launch.action);
    events_->completed(launch.action, {}, {});
  }
  void verdict(const Verdict&) override {}
  void abort(std::exception_ptr) noexcept override {}

 protected:
  std::shared_ptr<StageEvents> events_;
};

// When a slot may be read and when it may be overwritten; device computes use events for this.
struct SlotTimes {
  std::chrono::steady_clock::time_point ready{}, free{};
};

SlotTimes& times_of(const SlotHandle& slot) { return *static_cast<SlotTimes*>(slot->owner.get()); }

class SleepingCompute : public NoopCompute {
 public:
  SleepingCompute(StageId id, ActionDuration duration) : id_(id), duration_(std::move(duration)) {}

  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override {
    auto slots = make_empty_slots(count);
    for (auto& slot : slots) slot->owner = std::make_shared<SlotTimes>();
    return slots;
  }

  void launch(const Launch& launch) override {
    auto start = std::max(events_->now(), busy_until_);
    for (const auto& input : {launch.activation, launch.gradient, launch.target}) {
      if (input) start = std::max(start, times_of(input).ready);
    }
    if (launch.output) start = std::max(start, times_of(launch.output).free);
    busy_until_ = start + (aborted_ ? std::chrono::nanoseconds(0) : duration_(id_, launch.action));
    if (launch.output) times_of(launch.output).ready = busy_until_;
    for (const auto& slot : launch.release) times_of(slot).free = busy_until_;
    events_->enqueued(launch.action);
    events_->complete_at(launch.action, {start, busy_until_});
  }
  void abort(std::exception_ptr) noexcept override { aborted_ = true; }

 private:
  StageId id_;
  ActionDuration duration_;
  std::chrono::steady_clock::time_point busy_until_{};
  bool aborted_ = false;
};

class EmptySource : public InputSource {
 public:
  void fill(schedules::InputKind, const StepInfo&, int, Slot&) override {}
  bool fills_at_once() const override { return true; }
};

}  // namespace

std::shared_ptr<StageCompute> make_noop_compute() { return std::make_shared<NoopCompute>(); }

std::shared_ptr<StageCompute> make_sleeping_compute(StageId id, ActionDuration duration) {
  return std::make_shared<SleepingCompute>(id, std::move(duration));
}

std::shared_ptr<InputSource> make_empty_source() { return std::make_shared<EmptySource>(); }

}  // namespace pipetrain
