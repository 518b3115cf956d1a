// The times at which a rank's actions ran on its device, on the host's steady clock, which all devices of a step share.
//
// Each action is enclosed by two timing events of the device. Earlier ones are read when later actions are issued, the
// last ones after the step, so nothing waits for the device within a step. Used by the rank's worker; collect() and
// actions() are thread-safe.
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

  // Drops the actions of the previous step. The stream must be idle, see Device::align_clock(), unless the step has
  // begun early.
  void begin_step(Stream& stream);
  // Call these around the action's own work, once the stream waits for its inputs. `early`: the action belongs to the
  // coming step.
  void start(Stream& stream, const schedules::Action& action, bool early = false);
  void end(Stream& stream);
  // Drops the started actions of the coming step, which will be started again.
  void forget_early();
  // Reads the events of the actions that have completed; never waits.
  void collect();

  // Returns the step's collected actions, in order; both times are zero where the device failed.
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
    bool ended = false;  // until then its events may still have the times of their previous use
  };

  ActionTimes times_of(const Events& events) const;
  void collect_locked();

  Device& device_;
  mutable std::mutex mutex_;
  std::deque<Running> running_;
  std::vector<Events> spare_;
  std::vector<DeviceAction> done_, early_;  // of the step, and of the coming one
  bool began_early_ = false;
};

}  // namespace pipetrain
