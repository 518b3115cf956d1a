// The processes of a run and the small messages between them: rendezvous, messages of the actors, and the news that a process
// is gone. Bulk data travels otherwise (comm/transport.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/wire.hpp"

namespace pipetrain {

// What a process has to say to join a run.
struct Rendezvous {
  int process = 0, processes = 1;
  std::string host = "127.0.0.1";  // where process 0 listens, and the others connect to
  std::uint16_t port = 29500;
  std::string token;  // of the run; may be empty on loopback only
  std::string job;    // of the launcher that started this process, see launch_job(): all of a run belong to the same
  std::chrono::milliseconds timeout{300000};
  std::string label;  // what this process runs, for messages: "ranks 2-3, stage 1"
  // Settings that must be equal in every process, by name: the first that differs is named.
  std::vector<std::pair<std::string, std::string>> settings;
};

struct ProcessInfo {
  int process = 0;
  std::string host;  // its own name for itself
  std::int64_t pid = 0;
  std::string label;
  // Numeric, of the interface by which the run reaches it: "127.0.0.1" where the run is on loopback.
  std::string address;
  // What to add to this process's steady clock to get the one of process 0; 0 on the same host.
  std::chrono::nanoseconds clock_offset{0};
  // Equal for all processes of one running kernel that reach each other in every way: containers and network namespaces are
  // machines of their own. Whatever the names of their hosts.
  std::string machine;
  // Equal for all processes that one shared memory could join, though nothing else may: one kernel, one IPC namespace.
  std::string memory_scope{};
};

// "process 2 (ranks 2-3, stage 1) on host b"
std::string to_string(const ProcessInfo& process);

// Whom a message is for: each has a handler of its own.
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
  // Whether this process was lost, or has said leave(): it answers nothing more. Thread-safe, never blocks.
  virtual bool is_gone(int process) const = 0;

  // Both handlers are called on the control plane's own thread and must not block: others take a process for lost whose control
  // plane does not run. What came before they were set is kept for them, and what comes after they were removed for the next
  // ones; up to 256 MiB of a channel, then the sender is lost. on_lost is called once a process that is gone (its connection
  // was closed, or nothing was heard of it for too long) without having said leave(), or that sent what cannot be taken: a
  // handler that throws says so. Without process 0 no message arrives any more, even between others. An empty function removes
  // a handler; none runs any more when the call returns, unless it is the handler that calls.
  virtual void on_message(Channel channel, OnMessage handler) = 0;
  virtual void on_lost(OnLost handler) = 0;

  // Queues a message of at most max_message_bytes; messages from one process to another arrive in order. Also to oneself.
  // To a process that is gone: dropped. A process for which 1 GiB waits is lost. Thread-safe, never blocks.
  virtual void send(int process, Channel channel, Bytes message) = 0;

  // Set-up only, from one thread: every process calls it with the same key in the same order and gets what each one gave, by
  // process. Blocks until all have: one may load or save for long in between, see Settings::patience. Throws
  // Error(peer_lost) when one is gone or hangs.
  virtual std::vector<Bytes> exchange(const std::string& key, Bytes mine) = 0;

  // This process ends on purpose: others shall not hear of it as lost. Waits shortly for what is queued to be sent. Whoever
  // destroys a control plane without it is lost to the others. Process 0 leaves last, or after having told the others that the
  // run is over: they hear nothing more.
  virtual void leave() = 0;

  static constexpr std::size_t max_message_bytes = std::size_t{16} << 20;

 protected:
  ControlPlane() = default;
};

// Blocks until every process of the run has joined. Throws Error: input for a token, version, settings or place in the run
// that the others do not accept; peer_lost when a process does not come in time (who) or the host cannot be reached;
// unavailable where the address is in use, where the run of another job listens there, and where this build has no control
// plane.
std::unique_ptr<ControlPlane> join_processes(const Rendezvous& rendezvous);

}  // namespace pipetrain
