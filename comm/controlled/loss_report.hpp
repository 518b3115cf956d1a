// LossReport tells a handler of the first process that a transport loses.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "comm/control_plane.hpp"

namespace pipetrain {

// Thread-safe.
class LossReport {
 public:
  void set_handler(ControlPlane::OnLost handler) {
    const std::lock_guard lock(mutex_);
    handler_ = std::move(handler);
  }
  // Calls the handler, the first time only.
  void lose(int process, const std::string& why) {
    ControlPlane::OnLost handler;
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(lost_, true)) return;
      handler = handler_;
    }
    if (handler) handler(process, why);
  }

 private:
  std::mutex mutex_;
  ControlPlane::OnLost handler_;
  bool lost_ = false;
};

}  // namespace pipetrain
