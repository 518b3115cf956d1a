#include "comm/controlled/edge_farewells.hpp"

namespace pipetrain {

void EdgeFarewells::begin_generation() {
  const std::lock_guard lock(mutex_);
  ++generation_;
  closed_.clear();
}

void EdgeFarewells::add(int process, std::uint32_t generation) {
  const std::lock_guard lock(mutex_);
  if (generation != generation_) return;
  closed_.insert(process);
  changed_.notify_all();
}

void EdgeFarewells::wait_for(const std::set<int>& processes, const ControlPlane& control, std::chrono::seconds limit) noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] {
    if (control.process() != 0 && control.is_gone(0)) return true;  // no message arrives any more
    for (const int process : processes)
      if (closed_.count(process) == 0 && !control.is_gone(process)) return false;
    return true;
  });
}

}  // namespace pipetrain
