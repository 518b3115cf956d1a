#include "apps/signals/inherited_signals.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace pipetrain {
namespace {

// The kernel's answer to rt_sigaction. At this time another library may have replaced the C library's sigaction().
struct KernelAction {
  std::uintptr_t handler;
  unsigned long rest[8];
};

bool is_ignored(int number) {
  KernelAction action{};
  constexpr std::size_t signal_set_bytes = 8;
  return ::syscall(SYS_rt_sigaction, number, nullptr, &action, signal_set_bytes) == 0 &&
         action.handler == reinterpret_cast<std::uintptr_t>(SIG_IGN);
}

bool ignored_hangup = false, ignored_interrupt = false;

}  // namespace

void remember_inherited_signals() {
  ignored_hangup = is_ignored(SIGHUP);
  ignored_interrupt = is_ignored(SIGINT);
}

bool was_started_ignoring(int number) { return number == SIGHUP ? ignored_hangup : number == SIGINT && ignored_interrupt; }

}  // namespace pipetrain
