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

}  // namespace pipetrain::bench
