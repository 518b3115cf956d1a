// Who may connect to the sockets on which UCX's TCP device listens.
//
// UCX 1.13 closes a connection that does not begin with its magic number, but aborts the process when one begins so and goes on
// with bytes that are not UCX's. So a filter in the kernel drops connection requests: all of them while this process has
// nothing to connect, and at other times those of hosts that are not of the run. Connections that are there stay.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "comm/ucx/file_descriptor.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

std::set<int> listening_sockets_of_this_process();
// Whether the address of a UCX worker names the port of this socket: whether UCX has opened it.
bool names_port_of(const Bytes& worker_address, int socket);

// Lets connection requests through to a listening socket that come from these numeric addresses of its family, and no others.
// Where they are more than the kernel takes into a filter (some hundreds, by net.core.optmem_max), all requests come through.
// Throws Error(unavailable) where the socket cannot be closed to all.
void admit_connections(int socket, const std::set<std::string>& addresses);

// Everything on the worker's thread.
class UcxTcpAdmission {
 public:
  // Throws Error(unavailable).
  explicit UcxTcpAdmission(UcxWorker& worker);
  ~UcxTcpAdmission();
  UcxTcpAdmission(const UcxTcpAdmission&) = delete;
  UcxTcpAdmission& operator=(const UcxTcpAdmission&) = delete;

  // Opens to these addresses. Two seconds after the last call, and then once may_close() says so, it is closed.
  void open(const std::set<std::string>& addresses, std::function<bool()> may_close);

 private:
  void close_later();

  UcxWorker& worker_;
  FileDescriptor timer_;
  std::function<bool()> may_close_;
};

}  // namespace pipetrain
