// The messages between processes over UCX, and the transfer of their data. Every message begins with the run's key; messages
// without it are dropped and counted.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_connections.hpp"
#include "comm/ucx/ucx_fetcher.hpp"
#include "comm/ucx/ucx_payload.hpp"
#include "comm/ucx/ucx_presence.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/wire.hpp"

namespace pipetrain {

struct UcxPreamble;

// Those up to `leave` are UcxPeers' own.
enum class UcxMessage : unsigned { hello, near, fetched, leave, data, credit, group_ready, group_data };

struct UcxOutgoing {
  UcxMessage message{};
  Bytes header = {};  // begun with begin_header()
  const void* data = nullptr;
  std::size_t bytes = 0;
  ucp_mem_h memory = nullptr;
  // Called once the data may be overwritten, or the peer is gone. May be empty.
  std::function<void()> done = {};
};

// The content of UcxPeers' own messages.
struct UcxOwnContent {
  std::uint64_t first = 0, second = 0;
};

// On the worker's thread, except count_dropped() and dropped(), which are thread-safe.
class UcxMessages {
 public:
  // The header comes without the preamble. It drops malformed messages: count_dropped().
  using Handler = std::function<void(std::span<const std::byte> header, UcxPayload& payload)>;
  using OwnHandler = std::function<void(UcxMessage message, int process, const UcxOwnContent& content)>;

  // Larger messages are fetched between processes of one machine; UCX copies smaller ones through shared memory.
  static constexpr std::size_t most_sent = 8192;

  UcxMessages(UcxWorker& worker, ControlPlane& control, UcxPresence& presence, UcxConnections& connections, UcxFetcher& fetcher,
              OwnHandler own);

  void set_key(std::uint64_t key) { key_ = key; }
  void on_message(UcxMessage message, Handler handler);
  void remove_handlers();

  WireWriter begin_header() const;
  // Messages to a process that is not connected any more are dropped.
  void send(int process, UcxOutgoing outgoing);
  void send_own(UcxConnection& connection, UcxMessage message, const UcxOwnContent& content = {});

  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Registration {
    UcxMessages* owner = nullptr;
    UcxMessage message{};
    Handler handler;
  };

  ucs_status_t receive(const Registration& registration, std::span<const std::byte> header, UcxPayload payload);
  void receive_own(UcxMessage message, int process, std::span<const std::byte> header);
  UcxPayload payload_elsewhere(const UcxPreamble& preamble);

  UcxWorker& worker_;
  ControlPlane& control_;
  UcxPresence& presence_;
  UcxConnections& connections_;
  UcxFetcher& fetcher_;
  OwnHandler own_;
  std::uint64_t key_ = 0;
  std::vector<std::unique_ptr<Registration>> handlers_;
  std::uint64_t last_fetch_ = 0;  // the number of the last message that another process is to fetch
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace pipetrain
