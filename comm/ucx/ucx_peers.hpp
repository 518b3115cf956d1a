// The other processes over UCX: one connection to each that this process has to do with, and the messages on it.
// Large data between processes of one machine are not sent: the receiver reads them from the sender's memory.
//
// Every process listens; of two, the one with the higher number connects. Who connects says the run's key first, which only its
// processes know (the control plane carries it), and every message begins with it: what does not is dropped and counted.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_payload.hpp"
#include "comm/ucx/ucx_shared_memory.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/wire.hpp"

namespace pipetrain {

struct CrossMemory;
struct UcxPreamble;

enum class UcxMessage : unsigned { hello, welcome, near, fetched, leave, data, credit, group_ready, group_data };

class UcxPeers {
 public:
  // Runs on the worker's thread; the header comes without the run's key. Drop what is malformed: count_dropped().
  using Handler = std::function<void(std::span<const std::byte> header, UcxPayload& payload)>;

  // Messages of more bytes are fetched between processes of one machine: UCX copies smaller ones through shared memory.
  static constexpr std::size_t most_sent = 8192;

  struct Outgoing {
    UcxMessage message{};
    Bytes header = {};  // begun with begin_header()
    const void* data = nullptr;
    std::size_t bytes = 0;
    ucp_mem_h memory = nullptr;
    // Once the data may be written again, or the peer is gone. May be empty.
    std::function<void()> done = {};
  };

  UcxPeers(UcxWorker& worker, ControlPlane& control);
  ~UcxPeers();
  UcxPeers(const UcxPeers&) = delete;
  UcxPeers& operator=(const UcxPeers&) = delete;

  // Tells the peers that this process leaves, so that none thinks it lost, and closes the connections: within a second or so.
  // What is on its way is lost. No handler runs any more.
  void leave() noexcept;

  // Before join(); for the whole life.
  void on_message(UcxMessage message, Handler handler);
  // Listens, and learns from the control plane where the others do: every process calls it at the same time. The others may
  // connect and send from here on, so that all that takes their messages must be there.
  void join();
  // Begins to connect; the peers must do the same.
  void connect(const std::set<int>& processes);
  // Blocks until these are connected: 20 s for one that this process connects to, a minute for one that is to connect to this.
  // Throws Error(peer_lost), or the cause of an abort.
  void wait_connected(const std::set<int>& processes);

  struct Patience {
    std::chrono::seconds limit;
    std::string late;  // of a process that takes longer: "it did not ..."
  };
  // Blocks until ready(process), which runs on the worker's thread, says so of each; notify() when an answer may have changed.
  // Throws as wait_connected() does.
  void wait_for(const std::set<int>& processes, const std::function<bool(int process)>& ready, const Patience& patience);
  void notify();

  WireWriter begin_header() const;
  // On the worker's thread. To a process that is not connected any more: dropped.
  void send(int process, Outgoing outgoing);
  // What is to be fetched out of this memory of that process's is copied through a mapping where it can be mapped, until
  // unmap_memory(). On the worker's thread.
  void map_memory(int process, const std::vector<SharedMemoryName>& names);
  void unmap_memory() { mapped_.clear(); }
  // Forgets what is on its way to and from this process, at once. On the worker's thread.
  void cut(int process);

  // Called once, with the first process that is gone without having said so. Thread-safe.
  void on_lost(ControlPlane::OnLost handler);
  // Later messages are dropped, waiting ends, what is on its way to and from processes that are gone is forgotten, and nobody
  // is reported lost any more. Thread-safe.
  void abort(std::exception_ptr cause) noexcept;
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }

  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Connection;
  struct Registration;

  void listen(const std::string& address);
  void accept(ucp_conn_request_h request);
  void connect_to(int process);
  std::unique_ptr<Connection> open(ucp_ep_params_t params);
  void close(std::unique_ptr<Connection> connection);
  void close_strangers();
  void forget_closed();

  ucs_status_t receive(const Registration& registration, std::span<const std::byte> header, UcxPayload payload, ucp_ep_h reply);
  void greet(UcxMessage message, int process, std::span<const std::byte> header, ucp_ep_h endpoint);
  bool admit(int process, ucp_ep_h endpoint);
  void probe(Connection& connection, std::uint64_t address, std::uint64_t value);
  UcxPayload payload_elsewhere(const UcxPreamble& preamble);
  bool is_beside(int process) const;
  bool read_memory(int process, const CrossMemory& from, void* to, std::size_t bytes) const;
  void fetch(int process, const CrossMemory& from, std::byte* to, std::size_t bytes, std::function<void(bool)> done);
  void take_fetched(Connection& connection, std::uint64_t number);
  void forget_fetches(Connection& connection);
  void send_own(Connection& connection, UcxMessage message, std::uint64_t first = 0, std::uint64_t second = 0);
  void send_on(Connection& connection, Outgoing outgoing, unsigned flags);
  void fail(Connection& connection, ucs_status_t status);
  void close_broken(ucp_ep_h endpoint);
  void cut_gone();
  bool is_connected(int process) const;
  void mark_connected(int process);
  void lose(int process, const std::string& why);
  [[noreturn]] void refuse(int process, const std::string& why) const;

  UcxWorker& worker_;
  ControlPlane& control_;
  std::uint64_t key_ = 0;
  const std::uint64_t probe_;     // what others read to see that they can
  std::vector<Bytes> listeners_;  // address and port, by process

  // On the worker's thread.
  ucp_listener_h listener_ = nullptr;
  std::vector<std::unique_ptr<Registration>> handlers_;
  std::map<int, std::unique_ptr<Connection>> peers_;
  std::vector<std::unique_ptr<Connection>> strangers_;  // that have not said the key yet
  std::vector<std::unique_ptr<Connection>> closed_;     // kept, lest UCX still speaks of one
  std::map<int, int> tries_;                            // of connecting, that broke before the other process answered
  std::set<int> to_try_again_;
  std::map<int, std::vector<std::unique_ptr<MappedMemory>>> mapped_;  // by process
  std::uint64_t last_fetch_ = 0;  // number of the last message that another process is to fetch
  std::set<int> left_;            // that said they leave, or heard that we do

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  std::uint64_t news_ = 0;  // how often what somebody may wait for has changed
  std::set<int> connected_;
  std::map<int, std::string> lost_;
  std::exception_ptr abort_cause_;
  ControlPlane::OnLost lost_handler_;
  bool lost_told_ = false;

  std::atomic<bool> leaving_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace pipetrain
