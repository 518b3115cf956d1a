// Groups of GPUs of one host in several processes: the kernels of cuda_group, which find each other's memory over CUDA IPC.
// CUDA builds only.
//
// The processes of a group tell each other where their mailboxes are, and at the first collective where all their memory is.
// The messages pass between the processes of the group alone, and a process may be behind: what comes before it has made its
// handles is kept.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/groups.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

class ImportedMemory;
class IpcGroupMemory;

class IpcGroups {
 public:
  // Sends a message that handle() of another process gets.
  using Send = std::function<void(int process, const Bytes& message)>;

  IpcGroups(const Mesh& mesh, int process, Send send);

  // As Transport::group.
  std::map<int, std::shared_ptr<Group>> make(const std::vector<int>& ranks, std::uint32_t number,
                                             const std::map<int, Device*>& devices, GroupUse use);
  // Throws Error for a message that cannot be, and where memory cannot be opened. Thread-safe.
  void handle(int from, WireReader& in);
  // Ends the waiting for other processes. Thread-safe.
  void abort(const std::exception_ptr& cause) noexcept;

 private:
  const Mesh& mesh_;
  int process_;
  Send send_;
  std::shared_ptr<ImportedMemory> imported_;  // groups may share the same memory; their handles keep it open
  std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<IpcGroupMemory>> groups_;  // their handles keep them
  // Messages of groups that are not made here yet, and whom they are from.
  std::map<std::uint32_t, std::vector<std::pair<int, Bytes>>> early_;
};

}  // namespace pipetrain
