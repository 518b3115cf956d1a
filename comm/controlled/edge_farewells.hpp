// EdgeFarewells counts the generations of a transport's edges, and knows which processes have closed the present ones.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>

#include "comm/control_plane.hpp"

namespace pipetrain {

// Thread-safe.
class EdgeFarewells {
 public:
  // Begins the next generation, whose edges nobody has closed.
  void begin_generation();
  std::uint32_t generation() const { return generation_.load(); }
  // Records that a process has closed its edges of a generation. Ignores those of other generations.
  void add(int process, std::uint32_t generation);
  // Returns once all these processes have closed their edges, are gone, or the limit is over.
  void wait_for(const std::set<int>& processes, const ControlPlane& control, std::chrono::seconds limit) noexcept;
  // Makes wait_for() look again at which processes are gone.
  void look_again() { changed_.notify_all(); }

 private:
  std::atomic<std::uint32_t> generation_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> closed_;
};

}  // namespace pipetrain
