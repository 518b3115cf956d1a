// Collectives between CPU ranks of several processes.
//
// Every member sends each part of its rows to the part's owner, which adds them in rank order, so that sums have the same bits
// as within one process, and sends the sums to all that want them. Members of one process read each other's memory. Large parts
// are sent in pieces through two buffers per sender, so the memory of a call does not grow with them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/ucx/ucx_group_mail.hpp"
#include "comm/ucx/ucx_peers.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/process_group.hpp"

namespace pipetrain {

// Members of one process tell each other here what can be read. Members sleep while they wait.
class UcxGroupBoard {
 public:
  struct Entry {
    const void* source = nullptr;  // the member's input to the call
    const void* result = nullptr;  // the part that it owns, once it is added
    // Calls: whose source is there; whose result is there; in which it no longer reads from others.
    std::uint64_t brought = 0, added = 0, left = 0;
  };

  explicit UcxGroupBoard(const std::vector<int>& members);  // of this process

  void bring(int member, const void* source, std::uint64_t call);
  void add(int member, const void* result, std::uint64_t call);
  // Blocks until no other member reads this one's memory.
  void leave(int member, std::uint64_t call);
  // Both block until the memory is ready, and throw the cause of an abort.
  const void* source(int member, std::uint64_t call);
  const void* result(int member, std::uint64_t call);
  void abort(std::exception_ptr cause);

 private:
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Entry> entries_;
  std::exception_ptr cause_;
};

// The common state of the members of one process.
struct UcxGroupPart {
  // The last member's destruction ends the group.
  ~UcxGroupPart();

  std::shared_ptr<UcxWorker> worker;
  std::shared_ptr<UcxPeers> peers;
  std::uint32_t number = 0;
  std::unique_ptr<UcxGroupMail> mail;
  std::unique_ptr<UcxGroupBoard> board;
  std::function<void()> forget;  // on the worker's thread: `mail` receives nothing any more
};

class UcxGroup : public Group {
 public:
  // member: this rank's index in the group. Throws Error(out_of_memory).
  UcxGroup(std::shared_ptr<UcxGroupPart> part, int member, int size, Device& device);
  ~UcxGroup() override;

  int rank() const override { return member_; }
  int size() const override { return size_; }
  using Group::all_gather, Group::reduce_scatter;
  void all_gather(Stream& stream, const Tensor& shard, const Tensor& full, const RowSplit& rows) override;
  void reduce_scatter(Stream& stream, const Tensor& full, const Tensor& shard, const RowSplit& rows) override;
  void all_reduce(Stream& stream, const Tensor& tensor, Reduction reduction) override;
  void shift(Stream& stream, const Tensor& source, const Tensor& target) override;
  void exchange(Stream& stream, const Tensor& full, const Tensor& received, const RowSplit& rows) override;
  void all_to_all(Stream& stream, const RowExchange& exchange) override;
  void abort(std::exception_ptr cause) override;

 private:
  class Call;
  template <class Work>
  void enqueue(Stream& stream, Work work);

  std::shared_ptr<UcxGroupPart> part_;
  int member_, size_;
  std::uint64_t calls_ = 0;            // on the stream's thread
  std::vector<int> far_;               // members in other processes
  Buffer staging_;                     // two pieces for each of them
  std::unique_ptr<UcxMemory> memory_;  // of staging_
};

}  // namespace pipetrain
