// Chooses the network interface on which NCCL listens in this process.
#pragma once

#include "comm/control_plane.hpp"

namespace pipetrain {

// NCCL chooses its interfaces at its first communicator, for all of the process's life: by NCCL_SOCKET_IFNAME, else it takes
// what it finds. As long as this lives, that variable names the loopback interface, where all of the run's processes are on it
// and the user has not set the variable. Thread-safe among themselves; while one is made or ends, nothing else may read the
// environment.
class NcclLoopback {
 public:
  // Throws Error(unavailable) where an earlier run of this process has kept NCCL to loopback, and this one is on several hosts.
  explicit NcclLoopback(const ControlPlane& control);
  ~NcclLoopback();
  NcclLoopback(const NcclLoopback&) = delete;
  NcclLoopback& operator=(const NcclLoopback&) = delete;

 private:
  bool holds_ = false;
};

}  // namespace pipetrain
