// SIGINT and SIGTERM ask a run to finish its step; a second one ends the process at once. SIGUSR1 asks who waits for whom.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace pipetrain {

// Catches both signals for the process from now on. The first makes stop_signal() tell its number; the second exits with the
// shell's status for it, without clean-up.
void catch_stop_signals();
// 0 until a signal came. Thread-safe.
int stop_signal();

// Calls `report` on a thread of its own after a SIGUSR1, as long as it lives; one object at a time.
class ReportOnSignal {
 public:
  explicit ReportOnSignal(std::function<void()> report);
  ~ReportOnSignal();
  ReportOnSignal(const ReportOnSignal&) = delete;
  ReportOnSignal& operator=(const ReportOnSignal&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace pipetrain
