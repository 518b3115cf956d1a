// UCX's context and worker, and the one thread that owns them: every use of UCX runs there. The thread sleeps in the
// kernel when it has nothing to do.
#pragma once

#include <poll.h>
#include <ucp/api/ucp.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/ucx/ucx_folder.hpp"
#include "core/wire.hpp"

namespace pipetrain {

// Makes UCX report only fatal errors on stderr, unless the environment says otherwise: this program reports its errors.
void quiet_ucx();

// Returns a remedy for a UCX that cannot start or connect: "; UCX is told UCX_TLS=x: ...". The environment is the usual reason.
std::string remedy_by_ucx_settings();

// Throws Error(unavailable) for a status that is an error: "UCX cannot <what>: <why><remedy>".
void check_ucx(ucs_status_t status, const char* what, const std::string& remedy = "");

class UcxWorker {
 public:
  // The transports that UCX may use, where the environment does not say otherwise.
  struct Reach {
    enum class Ways { all, shared_memory, network };
    Ways ways = Ways::all;
    std::string net_devices = {};  // as in UCX_NET_DEVICES; empty: all of them
  };

  // Throws Error(unavailable).
  explicit UcxWorker(const Reach& reach);
  UcxWorker() : UcxWorker(Reach()) {}
  // Runs the posted work, then ends the thread and UCX with it. Endpoints must be closed by then.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  // Runs the work on the thread, in the order of the calls; it must not block and must not throw. Thread-safe, never blocks.
  void post(std::function<void()> work);
  // Does the same as post(), but waits for the work and throws its exception. Do not call it on the thread itself.
  void call(const std::function<void()>& work);

  // Returns the data with which another process's ucp_ep_create() reaches this worker. Not on the thread itself. Throws
  // Error(unavailable).
  Bytes address();

  // Returns the sockets on which UCX's TCP device listens. They accept nothing until UcxTcpAdmission opens them. On the thread
  // only.
  const std::vector<int>& listening_sockets() const { return listening_sockets_; }

  // Calls `readable` once, when the descriptor is readable and everything that UCX had received by then has been
  // handled; until forget(). Both on the thread only.
  void watch(int descriptor, std::function<void()> readable);
  void forget(int descriptor);

  // On the thread only.
  ucp_worker_h handle() const { return worker_; }
  ucp_context_h context() const { return context_; }

 private:
  void open(const Reach& reach);
  void close() noexcept;
  Bytes own_address();
  void run();
  void sleep();
  bool run_posted();
  void run_readable();
  void wake() noexcept;

  std::shared_ptr<const UcxFolder> folder_;  // for UCX's files; null where it makes them elsewhere
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<int> listening_sockets_;
  int worker_events_ = -1;  // readable when UCX has something to do
  int posted_events_ = -1;  // readable when somebody posted while the thread slept
  struct Watched {
    int descriptor;
    std::function<void()> readable;
  };
  std::vector<Watched> watched_;  // on the thread only
  std::vector<pollfd> events_;    // of one sleep: UCX's, posted_events_, watched_
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  std::vector<std::function<void()>> running_;  // on the thread only
  bool asleep_ = false;                         // under mutex_
  bool stop_ = false;                           // under mutex_
  std::thread thread_;
};

// Memory that UCX moves data from and to, registered while this object lives. Made and destroyed on the worker's thread.
class UcxMemory {
 public:
  // Throws Error(out_of_memory) where the memory cannot be registered.
  UcxMemory(UcxWorker& worker, void* data, std::size_t bytes);
  ~UcxMemory();
  UcxMemory(const UcxMemory&) = delete;
  UcxMemory& operator=(const UcxMemory&) = delete;

  ucp_mem_h handle() const { return handle_; }  // null for no bytes

 private:
  UcxWorker& worker_;
  ucp_mem_h handle_ = nullptr;
};

}  // namespace pipetrain
