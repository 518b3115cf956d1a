// SIGINT, SIGTERM and SIGHUP (a terminal that goes away) end a command, at once or, if it has something to finish, after that;
// a second signal always ends it at once, without unfinished output files. SIGUSR1 asks which stage waits for which. Another
// signal, mostly SIGUSR2, is the notice of a scheduler that it will take this process's machine.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace pipetrain {

// The work of a process that a signal ends. Both functions may be called as long as the process lives.
struct OutputEnd {
  void (*remove_unfinished)();           // removes output files and locks; async-signal-safe
  void (*print)(std::string_view line);  // for the watch's thread; never waits
};

// Handles these signals for the process while the object lives, on a thread of its own; one object at a time. Without
// SignalAnswers the first of the three removes unfinished output files and ends the process with status 130, 143 or 129
// and one line. SIGINT and SIGHUP that are ignored when it begins stay ignored, as nohup and shells' background jobs
// require. SIGXFSZ (ulimit -f) is ignored from then on: a write beyond the limit fails as on a full disk, and is
// reported and cleaned up. SIGBUS from a data file that was cut short ends the process in the same way, with status 2;
// so does, with status 1, SIGABRT under a limit on memory (ulimit -v), with which the C library ends it.
class SignalWatch {
 public:
  explicit SignalWatch(const OutputEnd& end);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

 private:
  void watch();

  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The answers of a run to signals, instead of ending at once; one object at a time. The functions are called on the watch's
// thread, and never after the destructor. From then on the first signal is ignored, because nothing is left to end.
class SignalAnswers {
 public:
  struct Answers {
    std::function<void()> asked_to_stop, report;
    std::function<void()> preempted;  // to a notice that hear_preemption() hears
  };
  explicit SignalAnswers(Answers answers);
  ~SignalAnswers();
  SignalAnswers(const SignalAnswers&) = delete;
  SignalAnswers& operator=(const SignalAnswers&) = delete;
};

// From now on this signal is the notice that this process will be preempted, whatever it meant before. A notice that comes
// before there are SignalAnswers is answered by the first of them.
void hear_preemption(int number);
// Returns the signal of hear_preemption(); 0: none.
int preemption_signal();

// Makes each of these signals, SIGUSR1 and SIGUSR2 call only the function, which must be safe in a signal handler. A command
// uses it whose work is done by other processes.
void relay_signals(void (*pass_on)(int number));

// Lets a signal end this process without a line, because the first process of the run reports it for all. Thread-safe.
void leave_stop_to_first_process();

// True for the signals above, and for SIGUSR2, which asks a run that cannot hand over ranks to stop.
bool asks_to_stop(int number);
// Stops this process as if this signal had come, unless one has come already. Thread-safe.
void request_stop(int number);

// Returns the first signal that asked to stop, 0 before that. Thread-safe.
int stop_signal();
// Returns the time of that signal; call it only if one came.
std::chrono::steady_clock::time_point stop_signal_time();
// Returns the name of that signal: "SIGINT".
std::string stop_signal_name();
// Returns the shell's exit status for it: 130 for SIGINT.
int stop_signal_status();

}  // namespace pipetrain
