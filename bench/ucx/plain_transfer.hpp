// Moves messages between two processes as ucx_perftest does, without this project's transport: UCX's active messages,
// one polling thread at either end, rendezvous from the sender's memory into the receiver's. Unlike ucx_perftest, the
// messages are written and read, and there are several.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "comm/control_plane.hpp"

namespace pipetrain::bench {

// Both processes of the run must make the same calls, from one thread.
class PlainTransfer {
 public:
  // The control plane must outlive it. Throws Error(unavailable) if UCX does not start, peer_lost.
  explicit PlainTransfer(ControlPlane& control);
  ~PlainTransfer();
  PlainTransfer(const PlainTransfer&) = delete;
  PlainTransfer& operator=(const PlainTransfer&) = delete;

  // Returns the bytes a second of this many messages: process 0 writes all bytes of one of four buffers in rotation,
  // and process 1 fetches them into one of its four and reads them; 0 in process 1. Throws Error(peer_lost).
  double written_and_read(std::size_t bytes, int messages);

 private:
  using Memory = std::vector<std::vector<std::uint64_t>>;

  void take_messages();
  double send(Memory& memory, std::size_t bytes, int messages);
  void receive(Memory& memory, std::size_t bytes, int messages);
  void finish(void* request);
  void progress();
  void meet() { control_.exchange("plain transfer", {}); }

  ControlPlane& control_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;  // to the other process
  std::deque<void*> came_;       // messages whose data are to be fetched
  bool all_read_ = false;        // reported by the other process
  unsigned idle_ = 0;            // consecutive polls without progress
};

}  // namespace pipetrain::bench
