// What the members of a group in one process send to members elsewhere and get from them. A message that nobody waits for yet
// is kept: small ones whole, of large ones only the word that they can be fetched, so that they stay in the sender's memory.
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
  // Transfers that a member waits for together. Whoever has begun some must wait() before it lets their memory go.
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

  // processes: of the members, in order. The worker and the peers outlive it; it must be destroyed when no member calls.
  UcxGroupMail(UcxWorker& worker, UcxPeers& peers, std::uint32_t number, std::vector<int> processes);

  int process(int member) const { return processes_[static_cast<std::size_t>(member)]; }

  // Each from the thread of a member's stream. The header's group is filled in.
  void send(Batch& batch, UcxGroupHeader header, const void* data, std::size_t bytes);
  void expect(Batch& batch, UcxGroupHeader header, const Target& target);
  // Blocks until all of the batch is done. Throws the cause of an abort, but also then only once nothing is on its way.
  void wait(Batch& batch);
  // The same, but for the throwing: for what an exception leaves behind.
  void settle(Batch& batch) noexcept;
  // The member has made this many calls to their end.
  void finished(int member, std::uint64_t calls);

  void abort(std::exception_ptr cause);

  // On the worker's thread.
  void take(std::span<const std::byte> header, UcxPayload& payload);
  // Drops what is kept and lets nobody wait any more.
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
  std::vector<std::uint64_t> calls_;  // that each member has finished
  std::map<int, int> moving_;         // transfers on their way, by process
  bool closed_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr cause_;  // under mutex_
};

}  // namespace pipetrain
