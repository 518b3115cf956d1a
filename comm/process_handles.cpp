#include "comm/process_handles.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <numeric>

#include "comm/control_plane.hpp"

namespace pipetrain {

namespace {

std::vector<int> numbers_in(const ControlPlane& control) {
  std::vector<int> numbers(static_cast<std::size_t>(control.processes()));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

ProcessHandles::ProcessHandles(const ControlPlane& control) : ProcessHandles(control, numbers_in(control)) {}

ProcessHandles::ProcessHandles(const ControlPlane& control, const std::vector<int>& numbers)
    : machine_(control.info(control.process()).machine) {
  for (int process = 0; process < control.processes(); ++process)
    add(numbers[static_cast<std::size_t>(process)], control.info(process));
}

ProcessHandles::~ProcessHandles() {
  for (const auto& [process, handle] : handles_)
    if (handle >= 0) ::close(handle);
}

// A process whose number the kernel does not know has ended since it joined: processes of one machine share their numbers.
void ProcessHandles::add(int number, const ProcessInfo& info) {
  const auto [place, added] = handles_.emplace(number, unknown);
  if (!added || info.machine.empty() || info.machine != machine_ || info.pid == ::getpid()) return;
  int& handle = place->second;
  handle = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(info.pid), 0));
  if (handle < 0) handle = errno == ESRCH ? ended : unknown;
}

int ProcessHandles::handle_of(int process) const {
  const auto found = handles_.find(process);
  return found == handles_.end() ? unknown : found->second;
}

bool ProcessHandles::has_ended(int process) const {
  const int handle = handle_of(process);
  if (handle < 0) return handle == ended;
  pollfd asked{handle, POLLIN, 0};
  return ::poll(&asked, 1, 0) == 1 && (asked.revents & POLLIN) != 0;
}

void ProcessHandles::end(int process) const {
  const int handle = handle_of(process);
  if (handle >= 0) ::syscall(SYS_pidfd_send_signal, handle, SIGKILL, nullptr, 0);
}

}  // namespace pipetrain
