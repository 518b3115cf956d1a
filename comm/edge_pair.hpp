// Two processes of a run with an edge in each direction: what the rate and the latency of their link are measured on.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/link.hpp"
#include "comm/transport.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"

namespace pipetrain {

// Every process of the run makes the same calls; those that are not of the pair only meet the others. Messages are of the
// device's memory: on a GPU they are work of its streams, ordered by events as in a pipeline. deliver(), give_back() and
// settle() from one thread.
class EdgePair {
 public:
  // Each outlives it. The mesh of the transport has one rank in each process. Process `first` sends first, and knows what was
  // measured. Throws Error(out_of_memory).
  EdgePair(ControlPlane& control, Transport& transport, Device& device, int first, int second);
  ~EdgePair();
  EdgePair(const EdgePair&) = delete;
  EdgePair& operator=(const EdgePair&) = delete;

  bool leads() const { return control_.process() == first_; }
  bool takes_part() const { return leads() || control_.process() == second_; }

  // Where slots are from now on: in the transport's memory for them, as a pipeline's are, or in the device's.
  enum class SlotMemory { transport, device };
  void place_slots(SlotMemory where) { where_ = where; }

  // Slots of so many bytes, of which the producers have all. The functions are called as EdgeReceiver and EdgeSender say.
  void open(std::size_t bytes, int slots, std::function<void(int slot)> arrived, std::function<void(int slot)> credit);
  void close() noexcept;
  // Blocks until every process of the run has called it too.
  void meet();

  // Throws Error(peer_lost) once a process of the run is gone.
  void check() const;

  // Sends what the mirror of that number holds, and gives a slot that arrived back.
  void deliver(int slot);
  void give_back(int slot);
  // Blocks until the GPUs have done what was delivered and given back so far; on CPUs a credit says so itself.
  void settle();

  Device& device() const { return device_; }
  // What goes out in the mirror of that number, and what came in the slot.
  const Tensor& outgoing(int slot) const;
  const Tensor& incoming(int slot) const { return slots_.at(static_cast<std::size_t>(slot))->lanes[0].tensor; }

 private:
  int other() const { return leads() ? second_ : first_; }
  void lose(int process, const std::string& why);
  bool on_gpu() const { return stream_ != nullptr; }
  SlotHandle make_slot(std::size_t bytes);

  ControlPlane& control_;
  Transport& transport_;
  Device& device_;
  int first_, second_;
  SlotMemory where_ = SlotMemory::transport;
  std::vector<Buffer> memory_;
  std::vector<SlotHandle> slots_;   // that this process receives in
  std::unique_ptr<Stream> stream_;  // of a GPU
  std::unique_ptr<Link> link_;      // to the other process, while edges are open; its work is behind that of the stream
  mutable std::mutex mutex_;
  std::string lost_;  // under mutex_: who, and why
};

// Slots that a thread of the transport hands to one that waits for them.
class SlotQueue {
 public:
  void put(int slot);
  // Throws Error(peer_lost) when none comes for a minute, or what the pair's check() throws.
  int take(const EdgePair& pair);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> slots_;
};

// Bytes a second of so many messages of this size from the first process to the second, with up to four on their way; 0 in the
// others. Throws Error (peer_lost, out_of_memory).
double bytes_per_second(EdgePair& pair, std::size_t bytes, int messages);

// Seconds for one way of a message that goes to and fro so often, half the median time of a round, between threads that sleep
// until it comes; 0 in all but the first process. On GPUs each answer is work of a stream behind what has come, and leaves as
// soon as the transport lets it: over CUDA IPC when it is enqueued, over NCCL when its data is ready. Throws Error(peer_lost).
double thread_latency(EdgePair& pair, std::size_t bytes, int rounds);

// The median. Not of nothing.
double median(std::vector<double> values);

}  // namespace pipetrain
