// All NCCL communicators of a process, which are watched and aborted together. NCCL builds only.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/nccl/nccl_comm.hpp"

namespace pipetrain {

// Thread-safe.
class NcclComms {
 public:
  NcclComms() = default;
  ~NcclComms();
  NcclComms(const NcclComms&) = delete;
  NcclComms& operator=(const NcclComms&) = delete;

  // Begins to join a communicator; NcclComm::settle() completes it. The caller owns it.
  std::shared_ptr<NcclComm> join(const NcclPlace& place);
  std::vector<std::shared_ptr<NcclComm>> alive();

  struct Failure {
    int process = -1;  // of the peer; -1: no failure
    std::string why;
  };
  Failure failure();

  // Ends the running work of all, on a thread of its own, because the caller may hold up what that waits for.
  void abort() noexcept;

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<NcclComm>> comms_;
  std::thread aborter_;
};

}  // namespace pipetrain
