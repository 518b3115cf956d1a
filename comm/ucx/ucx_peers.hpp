// The other processes over UCX: one connection to each that this process exchanges messages with. Large data between
// processes of one machine is not sent: the receiver reads it from the sender's memory.
//
// The control plane, which only processes with the run's token can join, gives each process the addresses of the
// others' UCX workers. Both of two processes connect to the other one and greet it. Every message begins with the run's
// key, which the control plane carries too. There is no UCX listener, because UCX 1.13 aborts the process when a stranger
// sends one bytes that are not UCX's. Its TCP device does listen, where the processes are on several machines:
// ucx_tcp_admission.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/ucx/ucx_connections.hpp"
#include "comm/ucx/ucx_fetcher.hpp"
#include "comm/ucx/ucx_messages.hpp"
#include "comm/ucx/ucx_presence.hpp"
#include "comm/ucx/ucx_tcp_admission.hpp"
#include "comm/ucx/ucx_worker.hpp"
#include "core/wire_fields.hpp"

namespace pipetrain {

class UcxPeers {
 public:
  // connect_limit: how much later than this process another one may begin to connect.
  UcxPeers(UcxWorker& worker, ControlPlane& control, std::chrono::seconds connect_limit = std::chrono::seconds(60));
  ~UcxPeers() { leave(); }
  UcxPeers(const UcxPeers&) = delete;
  UcxPeers& operator=(const UcxPeers&) = delete;

  // Tells the peers that this process leaves, so that it does not count as lost, and closes the connections within
  // about a second. Data in flight is lost. No handler runs any more.
  void leave() noexcept;

  // Called before join(); stays for the whole life. The handler runs on the worker's thread.
  void on_message(UcxMessage message, UcxMessages::Handler handler);
  // Exchanges the run's key and the addresses of the workers over the control plane: every process calls it at the same
  // time. The others may connect and send from here on, so all handlers must be set.
  void join();
  // Begins to connect; the peers must do the same.
  void connect(const std::set<int>& processes);
  // Blocks until these have greeted this process, for the connect limit at most. Throws Error(peer_lost), or the cause
  // of an abort.
  void wait_connected(const std::set<int>& processes);
  // Blocks until ready(process), which runs on the worker's thread, is true for each; call notify() when an answer may
  // have changed. Throws as wait_connected() does.
  void wait_for(const std::set<int>& processes, const std::function<bool(int process)>& ready, const UcxPatience& patience) {
    presence_.wait_for(processes, ready, patience);
  }
  void notify() { presence_.notify(); }

  WireWriter begin_header() const { return messages_.begin_header(); }
  // Returns the header of a message with this content (core/wire_fields.hpp).
  template <class Content>
  Bytes header(const Content& content) const {
    WireWriter header = begin_header();
    write_message(header, content);
    return std::move(header).data();
  }
  // On the worker's thread. Messages to a process that is not connected any more are dropped.
  void send(int process, UcxOutgoing outgoing) { messages_.send(process, std::move(outgoing)); }
  // Until unmap_memory(), data to be fetched from this memory of that process is copied through a mapping, where it can
  // be mapped. On the worker's thread.
  void map_memory(int process, const std::vector<SharedMemoryName>& names) { fetcher_.map_memory(process, names); }
  void unmap_memory() { fetcher_.unmap_memory(); }
  // Drops all transfers in flight to and from this process, at once. On the worker's thread.
  void cut(int process) { connections_.cut(process); }

  // Called once, with the first process that is gone without leaving. Thread-safe.
  void on_lost(ControlPlane::OnLost handler) { presence_.on_lost(std::move(handler)); }
  // Later messages are dropped, waits end, transfers in flight with lost processes are dropped, and no process is
  // reported lost any more. Thread-safe.
  void abort(std::exception_ptr cause) noexcept;
  bool aborted() const { return presence_.aborted(); }

  void count_dropped() { messages_.count_dropped(); }
  std::uint64_t dropped() const { return messages_.dropped(); }

 private:
  void greet(int process);
  void receive(UcxMessage message, int process, const UcxOwnContent& content);
  void take_greeting(UcxConnection& connection, const UcxOwnContent& greeting);

  UcxWorker& worker_;
  ControlPlane& control_;
  const std::chrono::seconds connect_limit_;
  const std::uint64_t probe_;            // a value in this process's memory, which those that can read it find there
  std::vector<Bytes> addresses_;         // of the UCX workers, by process
  std::set<std::string> run_addresses_;  // from which the run's processes connect

  UcxPresence presence_;
  UcxFetcher fetcher_;
  UcxConnections connections_;
  UcxMessages messages_;
  // On the worker's thread.
  std::unique_ptr<UcxTcpAdmission> admission_;
  // The greetings of processes that this one has not connected to yet. A greeting has an address of the process's memory and
  // the value there.
  std::map<int, UcxOwnContent> early_;
};

}  // namespace pipetrain
