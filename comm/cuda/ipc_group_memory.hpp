// One process's view of the memory of a group of GPUs, some of whose ranks run in other processes. CUDA builds only.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "comm/cuda/cuda_ipc_memory.hpp"
#include "comm/cuda/far_memory.hpp"
#include "comm/cuda/shared_host_memory.hpp"
#include "core/buffer.hpp"
#include "core/cuda/cuda_memory.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// Members are numbered as in `ranks`. Thread-safe, once all of this process are added.
class IpcGroupMemory {
 public:
  struct Setup {
    std::vector<int> ranks;
    const Mesh& mesh;
    std::uint32_t number = 0;  // of the group
    // Sends a message to handle() of another process.
    std::function<void(int process, const Bytes& message)> send;
    std::shared_ptr<ImportedMemory> imported;
  };

  explicit IpcGroupMemory(Setup setup) : setup_(std::move(setup)), posts_(setup_.ranks.size()) {}

  int size() const { return static_cast<int>(setup_.ranks.size()); }

  void add_own(int member, Device& device);
  // Called once all members of this process are added: sends their mailboxes and posts to the other processes, and
  // waits for theirs. Throws the cause of an abort, Error(peer_lost) for a process that stays silent.
  void introduce();
  // Handles a message of another process. Throws Error for an invalid one, and where its memory cannot be opened.
  void handle(int from, std::span<const std::byte> message);

  // For a member of this process: see FarMemory.
  void* mailbox(int member, int other) const;
  Place place_of(int member, const Tensor& tensor);
  char* reach(int member, int other, Place place) const;
  const char* const* beginnings(int member) const;

  // After introduce(): the memory in which each member posts its pieces.
  const std::vector<std::shared_ptr<SharedHostMemory>>& posts() const { return posts_; }

  bool gpus_are_shared() const { return gpus_are_shared_; }  // after introduce(); see FarGroup
  // Ends every wait. Thread-safe.
  void abort(const std::exception_ptr& cause) noexcept;

 private:
  // The view of one rank of this process.
  struct View {
    Device* device = nullptr;
    Buffer box, beginnings;
    std::vector<DeviceMemory> own;  // shared with others, sorted by address
    std::array<void*, max_cuda_group_ranks> mailboxes{};
    std::array<std::vector<char*>, max_cuda_group_ranks> allocations;  // of each member, at this one's addresses
    std::set<int> shared;                                              // members whose allocations are known
    bool meets = false;                                                // it has shared its own, and knows all others'
  };

  const Setup setup_;
  std::map<int, View> own_;  // by member; the keys and devices do not change
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<SharedHostMemory>> posts_;  // by member
  std::set<int> introduced_;                              // members whose mailboxes and posts are known
  std::set<int> ready_;                                   // processes that know all members' mailboxes and posts
  std::exception_ptr cause_;
  std::atomic<bool> gpus_are_shared_{false};

  int process_of(int member) const;
  std::set<int> other_processes() const;
  void meet(int member, View& view);
  void share(int member, View& view);
  void hear_introduction(int member, WireReader& in);
  void hear_allocations(int member, WireReader& in);
  void hear_ready(int process);
  void refuse_shared_gpu(int own, int other);
  template <class Body>
  void send_message(int member, int saying, Body body);
  template <class Ready>
  void wait(Ready ready);
};

}  // namespace pipetrain
