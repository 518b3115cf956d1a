// The connections to other processes, UCX's endpoints: they are opened, watched, and closed.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/control_plane.hpp"
#include "comm/ucx/file_descriptor.hpp"
#include "comm/ucx/ucx_presence.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

class UcxConnections;

struct UcxConnection {
  UcxConnections* owner = nullptr;
  ucp_ep_h endpoint = nullptr;
  int process = -1;
  std::chrono::steady_clock::time_point closed;
  void* closing = nullptr;  // UCX's request to close it, while that is in progress
  bool failed = false;
  FileDescriptor life;  // readable once a process of this machine has ended; empty for others
  bool near = false;    // the other process can read this one's memory
  // For data that the other process is to fetch, by number: called once it has.
  std::map<std::uint64_t, std::function<void()>> fetched_by_it;

  // Returns false for a number that is not awaited.
  bool take_fetched(std::uint64_t number);
  // Ends all waits for the other process.
  void forget_fetches();
};

// On the worker's thread.
class UcxConnections {
 public:
  UcxConnections(UcxWorker& worker, ControlPlane& control, UcxPresence& presence)
      : worker_(worker), control_(control), presence_(presence) {}

  // Begins to connect to the process whose UCX worker has this address. Returns null, and the process is lost, where UCX
  // cannot.
  UcxConnection* open(int process, const Bytes& address);
  // Returns null for a process that is not connected. The connection may have failed.
  UcxConnection* find(int process);
  const std::map<int, std::unique_ptr<UcxConnection>>& all() const { return open_; }
  // True when there are connections, and all of those processes have greeted this one.
  bool all_connected() const;
  // Drops all transfers in flight to and from this process, at once; it counts as having left.
  void cut(int process);
  // Cuts the processes that the control plane calls gone.
  void cut_gone();
  // For the end of this process's use of UCX.
  void close_all();

 private:
  void watch(UcxConnection& connection);
  std::string reason_of(const UcxConnection& connection, ucs_status_t status) const;
  void fail(UcxConnection& connection, const std::string& why);
  void close_broken(int process, ucp_ep_h endpoint);
  void close(std::unique_ptr<UcxConnection> connection);
  void forget_closed();

  UcxWorker& worker_;
  ControlPlane& control_;
  UcxPresence& presence_;
  std::map<int, std::unique_ptr<UcxConnection>> open_;  // by process
  std::vector<std::unique_ptr<UcxConnection>> closed_;  // kept as long as UCX may refer to one
};

}  // namespace pipetrain
