// Makes groups of GPUs over NCCL: the process of the first rank sends the communicator's id to the others, in messages
// that may arrive before they are needed. NCCL builds only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/groups.hpp"
#include "comm/nccl/nccl_comms.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

class NcclGroups {
 public:
  // Sends a message to handle() of another process.
  using Send = std::function<void(int process, const Bytes& message)>;

  NcclGroups(ControlPlane& control, const Mesh& mesh, NcclComms& comms, Send send);

  // See Transport::group.
  std::map<int, std::shared_ptr<Group>> make(const std::vector<int>& ranks, std::uint32_t number,
                                             const std::map<int, Device*>& devices, GroupUse use);
  // Throws Error for an invalid message. Thread-safe.
  void handle(WireReader& in);
  // Ends all waits for ids. Thread-safe.
  void abort(const std::exception_ptr& cause) noexcept;

 private:
  ControlPlane& control_;
  const Mesh& mesh_;
  NcclComms& comms_;
  Send send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Bytes> names_;  // received from other processes
  std::exception_ptr cause_;

  Bytes name(const std::vector<int>& ranks, std::uint32_t number);
  int another_process(const std::vector<int>& ranks) const;
};

}  // namespace pipetrain
