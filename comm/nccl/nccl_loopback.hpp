// Chooses the network interface on which NCCL listens in this process.
#pragma once

#include "comm/control_plane.hpp"

namespace pipetrain {

// NCCL chooses its interfaces at its first communicator, for the rest of the process: by NCCL_SOCKET_IFNAME, else by
// itself. While this object lives, that variable names the loopback interface if all of the run's processes are on it
// and the user has not set the variable. Objects may be made on several threads; nothing else may read the environment
// while one is made or destroyed.
class NcclLoopback {
 public:
  // Throws Error(unavailable) where an earlier run of this process has bound NCCL to loopback, and this one is on
  // several hosts.
  explicit NcclLoopback(const ControlPlane& control);
  ~NcclLoopback();
  NcclLoopback(const NcclLoopback&) = delete;
  NcclLoopback& operator=(const NcclLoopback&) = delete;

 private:
  bool holds_ = false;
};

}  // namespace pipetrain
