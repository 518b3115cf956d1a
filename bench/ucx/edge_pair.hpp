// The two processes that are measured, and measurements of their link that only the benchmark makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/control_plane.hpp"
#include "comm/edge_pair.hpp"
#include "comm/transport.hpp"
#include "core/device.hpp"
#include "core/mesh.hpp"

namespace pipetrain::bench {

// Returns a port of this host at which nobody listens.
std::uint16_t free_port();

// One of the two processes; it must make the same calls as the other one.
class EdgeEnd {
 public:
  EdgeEnd(int process, std::uint16_t port);
  ~EdgeEnd();

  EdgePair& pair() { return *pair_; }
  ControlPlane& control() { return *control_; }

 private:
  std::unique_ptr<ControlPlane> control_;
  Mesh mesh_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<EdgePair> pair_;
};

// Like thread_latency(), but an actor of a system configured like the engine's takes each message from the transport
// and sends the answer.
double actor_latency(EdgePair& pair, std::size_t bytes, int rounds);

// Returns the bytes a second of this many messages, all bytes of which the first process writes and the second one
// reads, with up to four in flight; 0 in the second process.
double written_and_read(EdgePair& pair, std::size_t bytes, int messages);
// Measures the same between two threads that pass each other memory of their own process: the limit of the machine's memory.
double written_and_read_in_one_process(std::size_t bytes, int messages);

// Returns the bytes a second of copies from four buffers of this size into four others, in rotation: the least cost of
// a message that is copied once, since large slots are not in the cache in which ucx_perftest's one buffer stays.
double copied_in_turns(std::size_t bytes, int copies);

}  // namespace pipetrain::bench
