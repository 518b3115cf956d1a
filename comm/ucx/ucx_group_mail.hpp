// Sends and receives messages between a group's members of one process and members elsewhere. A message that nobody
// waits for yet is kept: a small one whole, of a large one only the notice, so that it stays in the sender's memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "comm/ucx/ucx_header.hpp"
#include "comm/ucx/ucx_payload.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

class UcxGroupMail {
 public:
  // Transfers that a member waits for together. Call wait() before freeing their memory.
  class Batch {
    friend class UcxGroupMail;
    int left_ = 0;         // under mutex_
    bool failed_ = false;  // under mutex_
  };

  struct Target {
    void* data = nullptr;
    std::size_t bytes = 0;
    ucp_mem_h memory = nullptr;
  };

  // processes: of the members, in order. The worker and the peers must outlive it; destroy it when no member calls.
  UcxGroupMail(UcxWorker& worker, UcxPeers& peers, std::uint32_t number, std::vector<int> processes);

  int process(int member) const { return processes_[static_cast<std::size_t>(member)]; }

  // Both are called on the thread of a member's stream. They fill in the header's group.
  void send(Batch& batch, UcxGroupHeader header, const void* data, std::size_t bytes);
  void expect(Batch& batch, UcxGroupHeader header, const Target& target);
  // Blocks until all of the batch is done. Throws the cause of an abort, but only once nothing is in flight.
  void wait(Batch& batch);
  // Does the same without throwing, for cleaning up after an exception.
  void settle(Batch& batch) noexcept;
  // The member has finished this many calls.
  void finished(int member, std::uint64_t calls);

  void abort(std::exception_ptr cause);

  // On the worker's thread.
  void take(std::span<const std::byte> header, UcxPayload& payload);
  // Drops kept messages and ends all waits.
  void close();

 private:
  struct Waiting {
    Batch* batch;
    Target target;
  };

  bool may_come(const UcxGroupHeader& header) const;
  void receive(int process, UcxPayload& payload, const Waiting& waiting);
  void add(Batch& batch);
  void finish(Batch& batch, bool came);
  void give_up(std::exception_ptr cause);  // under mutex_
  void wait_after_abort(std::unique_lock<std::mutex>& lock, const Batch& batch);

  UcxWorker& worker_;
  UcxPeers& peers_;
  std::uint32_t number_;
  std::vector<int> processes_;

  // On the worker's thread.
  std::map<UcxGroupHeader, Waiting> expected_;
  std::map<UcxGroupHeader, UcxPayload> kept_;
  std::vector<std::uint64_t> calls_;  // finished by each member
  std::map<int, int> moving_;         // transfers in flight, by process
  bool closed_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr cause_;  // under mutex_
};

}  // namespace pipetrain
