// Messages between two processes as ucx_perftest moves them, without anything of ours: UCX's active messages, one thread at
// either end that polls, rendezvous from the sender's memory into the receiver's. Beside ucx_perftest, the messages are written
// and read, and there are several.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "comm/control_plane.hpp"

namespace pipetrain::bench {

// Both processes of the run make the same calls, from one thread.
class PlainTransfer {
 public:
  // The control plane outlives it. Throws Error(unavailable) where UCX does not start, peer_lost.
  explicit PlainTransfer(ControlPlane& control);
  ~PlainTransfer();
  PlainTransfer(const PlainTransfer&) = delete;
  PlainTransfer& operator=(const PlainTransfer&) = delete;

  // Bytes a second of so many messages that process 0 writes, each all bytes of one of four buffers in turns, and that process
  // 1 fetches into one of its four and reads; 0 in process 1. Throws Error(peer_lost).
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
  bool all_read_ = false;        // says the other process
  unsigned idle_ = 0;            // times in a row that nothing moved
};

}  // namespace pipetrain::bench
