// Two processes of a run with an edge in each direction, on which the rate and the latency of their link are measured.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
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

// Every process of the run makes the same calls; those outside the pair only meet the others. Messages are in the
// device's memory: on a GPU they are work of its streams, ordered by events as in a pipeline. Call deliver(),
// give_back() and settle() from one thread.
class EdgePair {
 public:
  // The references must outlive it. The transport's mesh must have one rank in each process. Process `first` sends
  // first, and gets the measurements. Throws Error(out_of_memory).
  EdgePair(ControlPlane& control, Transport& transport, Device& device, int first, int second);
  ~EdgePair();
  EdgePair(const EdgePair&) = delete;
  EdgePair& operator=(const EdgePair&) = delete;

  bool leads() const { return control_.process() == first_; }
  bool takes_part() const { return leads() || control_.process() == second_; }

  // The memory of slots from now on: the transport's memory for slots, as in a pipeline, or the device's.
  enum class SlotMemory { transport, device };
  void place_slots(SlotMemory where) { where_ = where; }

  // Makes slots of this many bytes, all of them free for the producers. See EdgeReceiver and EdgeSender for the functions.
  void open(std::size_t bytes, int slots, std::function<void(int slot)> arrived, std::function<void(int slot)> credit);
  void close() noexcept;
  // Blocks until every process of the run has called it too.
  void meet();

  // Throws Error(peer_lost) once a process of the run is gone.
  void check() const;

  // deliver() sends the contents of the mirror of that number; give_back() frees a slot that arrived.
  void deliver(int slot);
  void give_back(int slot);
  // Blocks until the GPUs have finished the present deliveries and credits; on CPUs a credit implies that.
  void settle();

  Device& device() const { return device_; }
  // Return the contents of the mirror of that number, and of the slot.
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
  std::vector<SlotHandle> slots_;   // in which this process receives
  std::unique_ptr<Stream> stream_;  // of a GPU
  std::unique_ptr<Link> link_;      // to the other process, while edges are open; its work follows that of the stream
  mutable std::mutex mutex_;
  std::string lost_;  // under mutex_: which process, and why
};

// A queue of slots from a thread of the transport to a thread that waits for them.
class SlotQueue {
 public:
  void put(int slot);
  // Throws Error(peer_lost) when none arrives for a minute, or what the pair's check() throws.
  int take(const EdgePair& pair);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int> slots_;
};

// Measures the bytes per second of this many messages of this size from the first process to the second, with up to four
// in flight; returns 0 in the other processes. Throws Error (peer_lost, out_of_memory).
double bytes_per_second(EdgePair& pair, std::size_t bytes, int messages);

// Measures the seconds of a message in one direction: half the median time of a round trip between threads that sleep until it
// arrives; returns 0 in all but the first process. On GPUs each answer is work of a stream after the message, and leaves as
// soon as the transport allows: over CUDA IPC when it is enqueued, over NCCL when its data is ready. Throws Error(peer_lost).
double thread_latency(EdgePair& pair, std::size_t bytes, int rounds);

// values must not be empty.
double median(std::vector<double> values);

}  // namespace pipetrain
