#include "apps/signals/signals.hpp"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "apps/signals/inherited_signals.hpp"
#include "comm/ucx/ucx_process.hpp"
#include "core/address_space.hpp"
#include "core/error_kind.hpp"

namespace pipetrain {
namespace {

std::atomic<int> caught{0};
std::atomic<bool> report_wanted{false}, preempted{false};
std::atomic<int> preemption{0};
std::atomic<void (*)(int)> relay{nullptr};
std::atomic<void (*)()> remove_outputs{nullptr};
std::atomic<void (*)(std::string_view)> print_line{nullptr};
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

std::int64_t milliseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

// Some senders, timeout(1) among them, signal a process and then its group: signals in quick succession count as one.
constexpr std::int64_t same_signal_ms = 250;
std::atomic<std::int64_t> caught_at{0};

// Safe in a signal handler.
[[noreturn]] void end_at_once(std::string_view line, int status) {
  remove_outputs.load()();
  remove_ucx_folder();
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, 0) > 0)  // without a reader, a line would block the process
    static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  _exit(status);
}

void on_signal(int number) {
  const auto pass_on = relay.load();
  const bool first = caught.load() == 0;
  if (first) {
    caught_at = milliseconds_now();
    caught = number;
  }
  if (pass_on) {
    pass_on(number);
  } else if (first) {
    return;
  } else if (milliseconds_now() - caught_at > same_signal_ms) {
    end_at_once("stopped at once by a second signal\n", 128 + number);
  }
}

void on_preemption(int number) {
  if (const auto pass_on = relay.load()) return pass_on(number);
  preempted = true;
}

void on_question(int number) {
  if (const auto pass_on = relay.load()) return pass_on(number);
  report_wanted = true;
}

// Large data files are mapped into memory; bytes that a file has lost cannot be read there any more.
void on_bus_error(int number, siginfo_t* info, void*) {
  if (info->si_code == BUS_ADRERR) {
    end_at_once("pipetrain: error: a data file was cut short while it was in use; leave --data alone during a run\n",
                exit_status(ErrorKind::input));
  }
  std::signal(number, SIG_DFL);  // not caused by a file: ends the process as it would have
}

// If a process was started with a signal ignored (nohup, a shell's background job), the signal stays ignored.
void hear(int number, const struct sigaction& action) {
  if (was_started_ignoring(number)) {
    std::signal(number, SIG_IGN);
  } else {
    ::sigaction(number, &action, nullptr);
  }
}

// The C library aborts if it finds no memory for a thread's own data.
void on_abort(int) {
  end_at_once(
      "pipetrain: error: a thread of the host's libraries has no memory left; raise ulimit -v, or use a smaller model\n", 1);
}

std::mutex answers_mutex;
SignalAnswers::Answers answers;
bool leave_when_asked = true;
std::atomic<bool> prints_stop{true};

[[noreturn]] void leave() {
  remove_outputs.load()();
  if (prints_stop) print_line.load()("stopped by " + stop_signal_name());
  hold_ucx_openings();
  std::_Exit(stop_signal_status());
}

}  // namespace

SignalWatch::SignalWatch(const OutputEnd& end) {
  remove_outputs = end.remove_unfinished;
  print_line = end.print;
  struct sigaction stop {};
  stop.sa_handler = on_signal;
  stop.sa_flags = SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) hear(number, stop);
  struct sigaction report {};
  report.sa_handler = on_question;
  report.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &report, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
  struct sigaction bus {};
  bus.sa_sigaction = on_bus_error;
  bus.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &bus, nullptr);
  if (address_space_limit()) std::signal(SIGABRT, on_abort);
  thread_ = std::thread([this] { watch(); });
}

SignalWatch::~SignalWatch() {
  stop_ = true;
  thread_.join();
}

void SignalWatch::watch() {
  for (bool answered = false; !stop_; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    const std::lock_guard lock(answers_mutex);
    if (caught != 0 && !answered && !relay.load()) {
      answered = true;
      if (answers.asked_to_stop) {
        answers.asked_to_stop();
      } else if (leave_when_asked) {
        leave();
      }
    }
    if (report_wanted.exchange(false) && answers.report) answers.report();
    if (answers.preempted && preempted.exchange(false)) answers.preempted();
  }
}

SignalAnswers::SignalAnswers(Answers given) {
  const std::lock_guard lock(answers_mutex);
  answers = std::move(given);
  leave_when_asked = false;
}

SignalAnswers::~SignalAnswers() {
  const std::lock_guard lock(answers_mutex);
  answers = {};
}

void hear_preemption(int number) {
  struct sigaction notice {};
  notice.sa_handler = on_preemption;
  notice.sa_flags = SA_RESTART;
  preemption = number;
  hear(number, notice);
}

int preemption_signal() { return preemption; }

void relay_signals(void (*pass_on)(int number)) {
  relay = pass_on;
  hear_preemption(SIGUSR2);
}

void leave_stop_to_first_process() { prints_stop = false; }

bool asks_to_stop(int number) { return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGUSR2; }

void request_stop(int number) {
  int none = 0;
  if (caught.load() == 0) caught_at = milliseconds_now();  // before other threads see that there is a signal
  caught.compare_exchange_strong(none, number);
}

int stop_signal() { return caught; }
std::chrono::steady_clock::time_point stop_signal_time() {  // its clock is CLOCK_MONOTONIC
  return std::chrono::steady_clock::time_point(std::chrono::milliseconds(caught_at));
}
std::string stop_signal_name() { return std::string("SIG") + ::sigabbrev_np(caught); }
int stop_signal_status() { return 128 + caught; }

}  // namespace pipetrain
