// The two processes that are measured, and what only the benchmark measures of their link.
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

// A port of this host that nobody listens at.
std::uint16_t free_port();

// One of the two: makes the same calls as the other one.
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

// As thread_latency(), but an actor of a system set up as the engine sets its own takes each message from the transport and
// sends the answer.
double actor_latency(EdgePair& pair, std::size_t bytes, int rounds);

// Bytes a second of so many messages that the first process writes and the second one reads, each all bytes of each, with up to
// four on their way; 0 in the second one.
double written_and_read(EdgePair& pair, std::size_t bytes, int messages);
// The same between two threads that hand each other memory of their own process: what the machine's memory allows.
double written_and_read_in_one_process(std::size_t bytes, int messages);

// Bytes a second of copies out of four buffers of this size into four others, in turns: what a message costs at least that is
// copied once, as large slots are not in the cache that ucx_perftest's one buffer stays in.
double copied_in_turns(std::size_t bytes, int copies);

}  // namespace pipetrain::bench
