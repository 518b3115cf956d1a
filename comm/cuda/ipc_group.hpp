// Groups of GPUs of one host in several processes: cuda_group's kernels, which reach each other's memory over CUDA IPC.
// CUDA builds only.
//
// The processes of a group send each other the addresses of their mailboxes, and at the first collective those of all
// their memory. Only the processes of the group exchange these messages. Messages that arrive before a process has made
// its handles are kept.
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
  // Sends a message to handle() of another process.
  using Send = std::function<void(int process, const Bytes& message)>;

  IpcGroups(const Mesh& mesh, int process, Send send);

  // See Transport::group.
  std::map<int, std::shared_ptr<Group>> make(const std::vector<int>& ranks, std::uint32_t number,
                                             const std::map<int, Device*>& devices);
  // Throws Error for an invalid message, and where memory cannot be opened. Thread-safe.
  void handle(int from, WireReader& in);
  // Ends all waits for other processes, also those of groups that are made later. Thread-safe.
  void abort(const std::exception_ptr& cause) noexcept;

 private:
  const Mesh& mesh_;
  int process_;
  Send send_;
  std::shared_ptr<ImportedMemory> imported_;  // groups may share the same memory; their handles keep it open
  std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<IpcGroupMemory>> groups_;  // owned by the handles
  std::exception_ptr cause_;                                       // of an abort
  // Messages of groups that are not made here yet, with their senders.
  std::map<std::uint32_t, std::vector<std::pair<int, Bytes>>> early_;
};

}  // namespace pipetrain
