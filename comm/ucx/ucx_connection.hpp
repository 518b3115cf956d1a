// One connection to another process, and the preamble of its messages; only for ucx_peers*.cpp.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "comm/ucx/file_descriptor.hpp"
#include "comm/ucx/ucx_peers.hpp"

namespace pipetrain {

struct UcxPeers::Connection {
  UcxPeers* owner = nullptr;
  ucp_ep_h endpoint = nullptr;
  int process = -1;
  std::chrono::steady_clock::time_point closed;
  void* closing = nullptr;  // UCX's request to close it, while that is in progress
  bool failed = false;
  FileDescriptor life;  // readable once a process of this machine has ended; empty for others
  bool near = false;    // the other process can read this one's memory
  // For data that the other process is to fetch, by number: called once it has.
  std::map<std::uint64_t, std::function<void()>> fetched_by_it;
};

struct UcxPeers::Registration {
  UcxPeers* owner = nullptr;
  UcxMessage message{};
  Handler handler;
};

// Begins every message. Where `fetch` is not 0, its data are `bytes` at `address` in the memory of process `from`,
// which waits for the notice that they have been fetched.
struct UcxPreamble {
  std::uint64_t key = 0;
  std::int32_t from = -1;
  std::uint32_t reserved = 0;
  std::uint64_t fetch = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

}  // namespace pipetrain
