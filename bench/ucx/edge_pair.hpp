// Two processes with an edge in each direction over UCX: what the rates and the latencies are measured on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/transport.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain::bench {

// A port of this host that nobody listens at.
std::uint16_t free_port();

// One of the two: makes the same calls as the other one.
class EdgeEnd {
 public:
  EdgeEnd(int process, std::uint16_t port);
  ~EdgeEnd();

  // Edge 0 goes from process 0 to process 1, edge 1 back; slots of so many bytes. The slots belong to their producers.
  void open(std::size_t bytes, int slots, std::function<void(int slot)> arrived, std::function<void(int slot)> credit);
  void close();
  void meet();  // blocks until the other one has called it too

  // Sends what the mirror of that number holds, and gives a slot that arrived back.
  void deliver(int slot) { transport_->deliver(static_cast<EdgeId>(process_), slot, 0); }
  void give_back(int slot) { transport_->give_credit(static_cast<EdgeId>(1 - process_), slot); }

 private:
  int process_;
  std::unique_ptr<ControlPlane> control_;
  Mesh mesh_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Transport> transport_;
  std::vector<Buffer> memory_;
};

// Bytes a second of messages of this size from process 0 to process 1, with up to four on their way; 0 in process 1.
double bytes_per_second(EdgeEnd& end, int process, std::size_t bytes, int messages);

// Seconds for one way of a message that goes to and fro so often, half the median time of a round; 0 in process 1. With
// threads, one that sleeps takes each message from the transport and sends the answer; with actors, an actor of a system set up
// as the engine sets its own.
double thread_latency(EdgeEnd& end, int process, std::size_t bytes, int rounds);
double actor_latency(EdgeEnd& end, int process, std::size_t bytes, int rounds);

}  // namespace pipetrain::bench
