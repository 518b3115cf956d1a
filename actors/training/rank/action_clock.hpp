// When a rank's actions ran on its device, by the host's steady clock, so that all devices of a step share one clock.
//
// Every action is between two timing events of the device. They are read as later actions are issued, and the last ones when
// the step is over: nothing waits for the device within a step. Used by the rank's worker; collect() and actions() are
// thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "core/device.hpp"

namespace pipetrain {

class ActionClock {
 public:
  explicit ActionClock(Device& device) : device_(device) {}

  // Forgets the step before. The stream must be idle, see Device::align_clock(), unless the step has begun early.
  void begin_step(Stream& stream);
  // Around what the action enqueues, once the stream waits for its inputs. `early`: it is of the coming step.
  void start(Stream& stream, const schedules::Action& action, bool early = false);
  void end(Stream& stream);
  // What has been started of the coming step was for nothing, and will be started again.
  void forget_early();
  // Reads the events of the actions that have completed; never waits.
  void collect();

  // Of the step's actions that have been collected, in order; both times zero where the device failed.
  std::vector<DeviceAction> actions() const;

 private:
  struct Events {
    std::unique_ptr<Event> start, end;
  };
  struct Running {
    schedules::Action action;
    Events events;
    std::chrono::steady_clock::time_point issued;
    enum class Of { step, coming, nothing } of = Of::step;
    bool ended = false;  // until then its events may still tell of their use before
  };

  ActionTimes times_of(const Events& events) const;
  void collect_locked();

  Device& device_;
  mutable std::mutex mutex_;
  std::deque<Running> running_;
  std::vector<Events> spare_;
  std::vector<DeviceAction> done_, early_;  // of the step, of the coming one
  bool began_early_ = false;
};

}  // namespace pipetrain
