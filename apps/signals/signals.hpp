// SIGINT, SIGTERM and SIGHUP (a terminal that goes away) end a command, at once or, while it has something to finish, when that
// is done; a second one always ends it at once, without unfinished output files. SIGUSR1 asks who waits for whom.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace pipetrain {

// Hears these signals for the process as long as it lives, on a thread of its own; one object at a time. Without SignalAnswers
// the first of the three removes unfinished output files and ends the process with status 130, 143 or 129 and one line. SIGINT
// and SIGHUP that are ignored when it begins stay ignored, as nohup and shells' background jobs have them. SIGXFSZ
// (ulimit -f) is ignored from then on: a write beyond the limit fails as on a full disk, so that it is told and cleaned up.
// SIGBUS from a data file that has been cut short ends the process the same way, with status 2; so does, with status 1, SIGABRT
// under a limit on memory (ulimit -v), by which the C library ends it.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void watch();

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// What a run does about signals, instead of ending: one object at a time. Both are called on the watch's thread, and not after
// the destructor, from when on the first signal is passed over, because nothing is left to end.
class SignalAnswers {
 public:
  SignalAnswers(std::function<void()> asked_to_stop, std::function<void()> report);
  ~SignalAnswers();
  SignalAnswers(const SignalAnswers&) = delete;
  SignalAnswers& operator=(const SignalAnswers&) = delete;
};

// For a command whose work others do: from now on these signals and SIGUSR1 only call the function, which must be safe in a
// signal handler, each time that one comes.
void relay_signals(void (*pass_on)(int number));

// For a process of a run that is not its first one: where a signal ends it at once it says nothing, because the first process
// says it for all. Thread-safe.
void leave_stop_to_first_process();

// Stops this process as if this signal had come, unless one has. Thread-safe.
void request_stop(int number);

// The first SIGINT, SIGTERM or SIGHUP that came, 0 until then. Thread-safe.
int stop_signal();
// When that was; only where one came.
std::chrono::steady_clock::time_point stop_signal_time();
// "SIGINT", "SIGTERM" or "SIGHUP", of the signal that came.
std::string stop_signal_name();
// The shell's status for it: 130, 143 or 129.
int stop_signal_status();

}  // namespace pipetrain
