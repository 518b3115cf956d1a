// The processes of a run and the small messages between them: rendezvous, the actors' messages, and notices of lost
// processes. Bulk data uses comm/transport.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/gathering.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// The data with which a process joins a run.
struct Rendezvous {
  int process = 0, processes = 1;
  std::string host = "127.0.0.1";  // where process 0 listens and the others connect
  std::uint16_t port = 29500;
  std::string token;  // of the run; may be empty on loopback only
  std::string job;    // of the launcher that started this process, see launch_job(): the same in all processes of a run
  std::chrono::milliseconds timeout{300000};
  std::string label;  // names this process in messages: "ranks 2-3, stage 1"
  // Settings that must be equal in every process, by name; an error names the first that differs.
  std::vector<std::pair<std::string, std::string>> settings;
  std::optional<Gathering> gathering;  // of the processes that are left; `process` and `processes` are then the first ones

  bool leads() const { return process == (gathering ? gathering->leader : 0); }
  // For the process that leads: those that may come, itself included.
  int places() const { return gathering && gathering->places > 0 ? gathering->places : processes; }
};

struct ProcessInfo {
  int process = 0;
  std::string host;  // as the process itself names it
  std::int64_t pid = 0;
  std::string label;
  // Numeric, of the interface by which the run reaches it: "127.0.0.1" where the run is on loopback.
  std::string address;
  // Add this to the process's steady clock to get process 0's; 0 on the same host.
  std::chrono::nanoseconds clock_offset{0};
  // Equal for all processes of one running kernel that reach each other in every way, whatever the names of their
  // hosts: containers and network namespaces are separate machines.
  std::string machine;
  // Equal for all processes that could share memory, even if nothing else: one kernel, one IPC namespace.
  std::string memory_scope{};

  template <class Wire>
  static void wire_fields(Wire& wire, auto& info) {
    std::int64_t offset = info.clock_offset.count();
    wire(info.process, info.host, info.machine, info.memory_scope, info.pid, info.label, info.address, offset);
    if constexpr (Wire::reads) info.clock_offset = std::chrono::nanoseconds(offset);
  }
};

// Returns "process 2 (ranks 2-3, stage 1) on host b".
std::string to_string(const ProcessInfo& process);

// The receiver of a message: each channel has a handler of its own.
enum class Channel : std::uint8_t { engine, transport, run };

class ControlPlane {
 public:
  using OnMessage = std::function<void(int from, std::span<const std::byte> message)>;
  using OnLost = std::function<void(int process, const std::string& why)>;

  virtual ~ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  virtual int process() const = 0;
  virtual int processes() const = 0;
  virtual const ProcessInfo& info(int process) const = 0;
  // True when this process was lost or has called leave(): it answers nothing more. Thread-safe, never blocks.
  virtual bool is_gone(int process) const = 0;
  // True when this process was lost without leave(); for this process itself when process 0 counts it as lost. Thread-safe,
  // never blocks.
  virtual bool is_lost(int process) const { return is_gone(process); }

  // Both handlers run on the control plane's own thread and must not block: a process whose control plane does not run
  // counts as lost. Messages that arrive while no handler is set are kept for the next one, up to 256 MiB per channel;
  // beyond that the sender is lost. on_lost is called once for each process that is gone without leave() (its
  // connection was closed, or it was silent for too long), or whose message made a handler throw. Without process 0 no
  // message arrives any more, not even between others. An empty function removes a handler; none runs any more when the
  // call returns, unless the handler itself calls.
  virtual void on_message(Channel channel, OnMessage handler) = 0;
  virtual void on_lost(OnLost handler) = 0;

  // Queues a message of at most max_message_bytes, also to this process itself; messages from one process to another
  // arrive in order. Messages to a process that is gone are dropped. A process for which 1 GiB is queued is lost.
  // Thread-safe, never blocks.
  virtual void send(int process, Channel channel, Bytes message) = 0;

  // For set-up, from one thread: every process calls it with the same key in the same order and gets the value of each,
  // by process. Blocks until all have called it; a process may load or save for long in between, see
  // Settings::patience. Throws Error(peer_lost) when one is gone or hangs.
  virtual std::vector<Bytes> exchange(const std::string& key, Bytes mine) = 0;

  // This process ends on purpose, so it does not count as lost. Waits a short time for queued messages to be sent. A
  // control plane that is destroyed without leave() is lost to the others. Process 0 must leave last, or after it has
  // told the others that the run is over: they receive nothing more.
  virtual void leave() = 0;

  static constexpr std::size_t max_message_bytes = std::size_t{16} << 20;

 protected:
  ControlPlane() = default;
};

// Blocks until every process of the run has joined. Throws Error: input for a token, version, settings or place in the run that
// the others do not accept; peer_lost when a process does not come in time (the error names it) or the host cannot be reached;
// unavailable where the address is in use, another job's run listens there, or this build has no control plane.
std::unique_ptr<ControlPlane> join_processes(const Rendezvous& rendezvous);

}  // namespace pipetrain
