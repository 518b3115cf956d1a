// The other processes over UCX: one connection to each that this process exchanges messages with. Large data between
// processes of one machine is not sent: the receiver reads it from the sender's memory.
//
// The control plane, which only processes with the run's token can join, gives each process the addresses of the
// others' UCX workers. Both of two processes connect to the other one and greet it. Every message begins with the run's
// key, which the control plane carries too; messages without it are dropped and counted. There is no UCX listener,
// because UCX 1.13 aborts the process when a stranger sends one bytes that are not UCX's. Its TCP device does listen,
// where the processes are on several machines: ucx_tcp_admission.hpp.
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
class UcxTcpAdmission;
struct UcxPreamble;

enum class UcxMessage : unsigned { hello, near, fetched, leave, data, credit, group_ready, group_data };

class UcxPeers {
 public:
  // Runs on the worker's thread; the header comes without the run's key. It drops malformed messages: count_dropped().
  using Handler = std::function<void(std::span<const std::byte> header, UcxPayload& payload)>;

  // Larger messages are fetched between processes of one machine; UCX copies smaller ones through shared memory.
  static constexpr std::size_t most_sent = 8192;

  struct Outgoing {
    UcxMessage message{};
    Bytes header = {};  // begun with begin_header()
    const void* data = nullptr;
    std::size_t bytes = 0;
    ucp_mem_h memory = nullptr;
    // Called once the data may be overwritten, or the peer is gone. May be empty.
    std::function<void()> done = {};
  };

  // connect_limit: how much later than this process another one may begin to connect.
  UcxPeers(UcxWorker& worker, ControlPlane& control, std::chrono::seconds connect_limit = std::chrono::seconds(60));
  ~UcxPeers();
  UcxPeers(const UcxPeers&) = delete;
  UcxPeers& operator=(const UcxPeers&) = delete;

  // Tells the peers that this process leaves, so that it does not count as lost, and closes the connections within
  // about a second. Data in flight is lost. No handler runs any more.
  void leave() noexcept;

  // Called before join(); stays for the whole life.
  void on_message(UcxMessage message, Handler handler);
  // Exchanges the run's key and the addresses of the workers over the control plane: every process calls it at the same
  // time. The others may connect and send from here on, so all handlers must be set.
  void join();
  // Begins to connect; the peers must do the same.
  void connect(const std::set<int>& processes);
  // Blocks until these have greeted this process, for the connect limit at most. Throws Error(peer_lost), or the cause
  // of an abort.
  void wait_connected(const std::set<int>& processes);

  struct Patience {
    std::chrono::seconds limit;
    std::string late;  // describes a process that takes longer: "it did not ..."
  };
  // Blocks until ready(process), which runs on the worker's thread, is true for each; call notify() when an answer may
  // have changed. Throws as wait_connected() does.
  void wait_for(const std::set<int>& processes, const std::function<bool(int process)>& ready, const Patience& patience);
  void notify();

  WireWriter begin_header() const;
  // On the worker's thread. Messages to a process that is not connected any more are dropped.
  void send(int process, Outgoing outgoing);
  // Until unmap_memory(), data to be fetched from this memory of that process is copied through a mapping, where it can
  // be mapped. On the worker's thread.
  void map_memory(int process, const std::vector<SharedMemoryName>& names);
  void unmap_memory() { mapped_.clear(); }
  // Drops all transfers in flight to and from this process, at once. On the worker's thread.
  void cut(int process);

  // Called once, with the first process that is gone without leaving. Thread-safe.
  void on_lost(ControlPlane::OnLost handler);
  // Later messages are dropped, waits end, transfers in flight with lost processes are dropped, and no process is
  // reported lost any more. Thread-safe.
  void abort(std::exception_ptr cause) noexcept;
  bool aborted() const { return aborted_.load(std::memory_order_relaxed); }

  void count_dropped() { dropped_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Connection;
  struct Registration;
  // The first message of a process: an address of its memory and the value there, with which the other one checks that
  // it can read that memory.
  struct Greeting {
    std::uint64_t address = 0, value = 0;
  };

  void connect_to(int process);
  void watch(Connection& connection);
  void close(std::unique_ptr<Connection> connection);
  void forget_closed();

  ucs_status_t receive(const Registration& registration, std::span<const std::byte> header, UcxPayload payload);
  void receive_own(UcxMessage message, int process, std::span<const std::byte> header);
  void take_greeting(Connection& connection, const Greeting& greeting);
  UcxPayload payload_elsewhere(const UcxPreamble& preamble);
  bool is_on_this_machine(int process) const;
  bool read_memory(int process, const CrossMemory& from, void* to, std::size_t bytes) const;
  void fetch(int process, const CrossMemory& from, std::byte* to, std::size_t bytes, std::function<void(bool)> done);
  void take_fetched(Connection& connection, std::uint64_t number);
  void forget_fetches(Connection& connection);
  void send_own(Connection& connection, UcxMessage message, std::uint64_t first = 0, std::uint64_t second = 0);
  void send_on(Connection& connection, Outgoing outgoing);
  std::string reason_of(const Connection& connection, ucs_status_t status) const;
  void fail(Connection& connection, const std::string& why);
  void close_broken(int process, ucp_ep_h endpoint);
  void cut_gone();
  bool is_connected(int process) const;
  bool may_close_sockets() const;
  void mark_connected(int process);
  void lose(int process, const std::string& why);
  [[noreturn]] void refuse(int process, const std::string& why) const;

  UcxWorker& worker_;
  ControlPlane& control_;
  const std::chrono::seconds connect_limit_;
  std::uint64_t key_ = 0;
  const std::uint64_t probe_;            // the value that others read for this check
  std::vector<Bytes> addresses_;         // of the UCX workers, by process
  std::set<std::string> run_addresses_;  // from which the run's processes connect

  // On the worker's thread.
  std::unique_ptr<UcxTcpAdmission> admission_;
  std::vector<std::unique_ptr<Registration>> handlers_;
  std::map<int, std::unique_ptr<Connection>> peers_;
  std::map<int, Greeting> early_;                                     // of processes that this one has not connected to yet
  std::vector<std::unique_ptr<Connection>> closed_;                   // kept as long as UCX may refer to one
  std::map<int, std::vector<std::unique_ptr<MappedMemory>>> mapped_;  // by process
  std::uint64_t last_fetch_ = 0;  // number of the last message that another process is to fetch
  std::set<int> left_;            // processes that have said that they leave, or been told that this one does

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  std::uint64_t news_ = 0;  // counts changes of what somebody may wait for
  std::set<int> connected_;
  std::map<int, std::string> lost_;
  std::exception_ptr abort_cause_;
  ControlPlane::OnLost lost_handler_;
  bool lost_reported_ = false;

  std::atomic<bool> leaving_{false};
  std::atomic<bool> aborted_{false};
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace pipetrain
