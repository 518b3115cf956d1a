// Limits who may connect to the sockets on which UCX's TCP device listens.
//
// UCX 1.13 closes a connection that does not begin with its magic number, but aborts the process when other bytes
// follow it than UCX's. So a filter in the kernel drops connection requests: all of them while this process has nothing
// to connect, otherwise those of hosts outside the run. Existing connections stay.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "comm/ucx/file_descriptor.hpp"
#include "comm/ucx/ucx_worker.hpp"

namespace pipetrain {

std::set<int> listening_sockets_of_this_process();
// True when the address of a UCX worker contains the port of this socket, which means that UCX has opened it.
bool names_port_of(const Bytes& worker_address, int socket);

// Lets connection requests through to a listening socket that come from these numeric addresses of its family, and no
// others. Where they are too many for a filter of the kernel (some hundreds, by net.core.optmem_max), all requests
// pass. Throws Error(unavailable) where the socket cannot be closed to all.
void admit_connections(int socket, const std::set<std::string>& addresses);

// Used on the worker's thread.
class UcxTcpAdmission {
 public:
  // Throws Error(unavailable).
  explicit UcxTcpAdmission(UcxWorker& worker);
  ~UcxTcpAdmission();
  UcxTcpAdmission(const UcxTcpAdmission&) = delete;
  UcxTcpAdmission& operator=(const UcxTcpAdmission&) = delete;

  // Opens to these addresses. It closes two seconds after the last call, once may_close() returns true.
  void open(const std::set<std::string>& addresses, std::function<bool()> may_close);

 private:
  void close_later();

  UcxWorker& worker_;
  FileDescriptor timer_;
  std::function<bool()> may_close_;
};

}  // namespace pipetrain
