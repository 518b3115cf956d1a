#include "apps/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace pipetrain {
namespace {

std::atomic<int> caught{0};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void on_signal(int number) {
  if (caught.exchange(number) != 0) _exit(128 + number);
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() { return caught; }

}  // namespace pipetrain
