#include "comm/process_handles.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "comm/control_plane.hpp"

namespace pipetrain {

// A process whose number the kernel does not know has ended since it joined: processes of one machine share their numbers.
ProcessHandles::ProcessHandles(const ControlPlane& control) {
  const std::string& machine = control.info(control.process()).machine;
  for (int process = 0; process < control.processes(); ++process) {
    const ProcessInfo& info = control.info(process);
    int& handle = handles_.emplace_back(unknown);
    if (info.machine.empty() || info.machine != machine || info.pid == ::getpid()) continue;
    handle = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(info.pid), 0));
    if (handle < 0) handle = errno == ESRCH ? ended : unknown;
  }
}

ProcessHandles::~ProcessHandles() {
  for (const int handle : handles_)
    if (handle >= 0) ::close(handle);
}

bool ProcessHandles::has_ended(int process) const {
  const int handle = handles_.at(static_cast<std::size_t>(process));
  if (handle < 0) return handle == ended;
  pollfd asked{handle, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLIN) != 0;
}

void ProcessHandles::end(int process) const {
  const int handle = handles_.at(static_cast<std::size_t>(process));
  if (handle >= 0) ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
}

}  // namespace pipetrain
