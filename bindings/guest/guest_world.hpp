// The processes that run pipelines of guest code together, from the view of one of them.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "comm/control_plane.hpp"

namespace pipetrain {

// Thread-safe.
class GuestWorld {
 public:
  // Blocks until all have joined. patience: how long processes wait for another one while a pipeline is made or ended; 0:
  // without limit. Throws as join_processes() does.
  GuestWorld(const Rendezvous& rendezvous, std::chrono::milliseconds patience);
  ~GuestWorld();  // as leave()
  GuestWorld(const GuestWorld&) = delete;
  GuestWorld& operator=(const GuestWorld&) = delete;

  int process() const { return process_; }
  int processes() const { return processes_; }
  // Returns "process 2 on host b".
  std::string name_of(int process) const;

  // Lends the control plane to one pipeline at a time: throws Misuse while there is another one, and after leave().
  std::shared_ptr<ControlPlane> lend();
  void give_back() noexcept;
  // From now on this process does not count as lost to the others. Throws Misuse while there is a pipeline.
  void leave();

 private:
  const int process_, processes_;
  mutable std::mutex mutex_;
  std::shared_ptr<ControlPlane> control_;  // null: left
  bool lent_ = false;
};

}  // namespace pipetrain
