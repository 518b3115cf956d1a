#include "apps/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>

namespace pipetrain {
namespace {

std::atomic<int> caught{0};
std::atomic<bool> report_wanted{false};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

std::int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Some senders, timeout(1) among them, signal a process and then its group: what comes at once counts as one.
constexpr std::int64_t same_signal_ms = 250;
std::atomic<std::int64_t> caught_at{0};

void on_signal(int number) {
  if (caught.load() == 0) {
    caught_at = milliseconds_now();
    caught = number;
  } else if (milliseconds_now() - caught_at > same_signal_ms) {
    _exit(128 + number);
  }
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int stop_signal() { return caught; }

ReportOnSignal::ReportOnSignal(std::function<void()> report) {
  struct sigaction action {};
  action.sa_handler = [](int) { report_wanted = true; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  thread_ = std::thread([this, report = std::move(report)] {
    while (!stop_) {
      if (report_wanted.exchange(false)) report();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
}

ReportOnSignal::~ReportOnSignal() {
  stop_ = true;
  thread_.join();
}

}  // namespace pipetrain
