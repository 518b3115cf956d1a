// When a rank's actions ran on its device, by the host's steady clock, so that all devices of a step share one clock.
//
// Every action is between two timing events of the device. They are read as later actions are issued, and the last ones when
// the step is over: nothing waits for the device within a step. Not thread-safe: used by the rank's worker, and by others only
// between steps.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "actors/engine/stage_compute.hpp"
#include "core/device.hpp"

namespace pipetrain {

class ActionClock {
 public:
  explicit ActionClock(Device& device) : device_(device) {}

  // Forgets the step before. The stream must be idle: see Device::align_clock().
  void begin_step(Stream& stream);
  // Around what the action enqueues, once the stream waits for its inputs.
  void start(Stream& stream, const schedules::Action& action);
  void end(Stream& stream);
  // Reads the events of the actions that have completed; never waits.
  void collect();

  // Of the actions collected since begin_step(), in order; both times zero where the device failed.
  const std::vector<DeviceAction>& actions() const { return done_; }

 private:
  struct Events {
    std::unique_ptr<Event> start, end;
  };
  struct Running {
    schedules::Action action;
    Events events;
    std::chrono::steady_clock::time_point issued;
  };

  ActionTimes times_of(const Events& events) const;

  Device& device_;
  std::deque<Running> running_;
  std::vector<Events> spare_;
  std::vector<DeviceAction> done_;
};

}  // namespace pipetrain
