// Makes the groups of GPUs that talk over NCCL: the process of the first rank names the communicator to the others, by
// messages that may come before they ask. NCCL builds only.
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
  // Sends a message that handle() of another process gets.
  using Send = std::function<void(int process, const Bytes& message)>;

  NcclGroups(ControlPlane& control, const Mesh& mesh, NcclComms& comms, Send send);

  // As Transport::group.
  std::map<int, std::shared_ptr<Group>> make(const std::vector<int>& ranks, std::uint32_t number,
                                             const std::map<int, Device*>& devices, GroupUse use);
  // Throws Error for a message that cannot be. Thread-safe.
  void handle(WireReader& in);
  // Ends the waiting for names. Thread-safe.
  void abort(const std::exception_ptr& cause) noexcept;

 private:
  ControlPlane& control_;
  const Mesh& mesh_;
  NcclComms& comms_;
  Send send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Bytes> names_;  // that other processes have given
  std::exception_ptr cause_;

  Bytes name(const std::vector<int>& ranks, std::uint32_t number);
  int another_process(const std::vector<int>& ranks) const;
};

}  // namespace pipetrain
