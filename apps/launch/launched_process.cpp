#include "apps/launch/launched_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "apps/output/launch_report.hpp"
#include "core/error.hpp"

namespace pipetrain {

namespace {

constexpr const char* passed_token_variable = "PIPETRAIN_TOKEN";
constexpr const char* ucx_backtraces = "UCX_HANDLE_ERRORS";  // for processes that a signal ends; launch reports those

// Returns this process's environment with the child's place instead of its own.
std::vector<std::string> child_environment(const LaunchPlace& place, const std::string& token, int report) {
  std::vector<std::string> entries = {fmt::format("{}={}", launch_variable, launch_variable_value(place)),
                                      fmt::format("{}={}", launch_report_variable, report),
                                      fmt::format("{}={}", passed_token_variable, token)};
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    if (name != launch_variable && name != launch_report_variable && name != passed_token_variable) entries.emplace_back(text);
  }
  if (!::getenv(ucx_backtraces)) entries.push_back(std::string(ucx_backtraces) + "=none");
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// Restores the signals that this process was given: those that it handles itself get their default action, those that it
// ignores stay ignored. But the signal that asks which stage waits for which, and the notice of a preemption, must not end a
// child that cannot answer yet.
void reset_signals(const sigset_t& mask) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGBUS, SIGABRT}) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) std::signal(number, SIG_DFL);
  }
  std::signal(SIGUSR1, SIG_IGN);
  std::signal(SIGUSR2, SIG_IGN);
  std::signal(SIGPIPE, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
}

}  // namespace

struct LaunchedProcess::Start {
  const char* file;
  std::vector<std::string> words, environment;
  int report;              // the child's end of the pipe
  std::string no_program;  // the report for a file that cannot be run
};

// Runs after fork() in a process of several threads, so it may call async-signal-safe functions only.
void LaunchedProcess::become(const Start& how, char* const* words, char* const* environment, pid_t parent,
                             const sigset_t& mask) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent has ended already
  ::fcntl(how.report, F_SETFD, 0);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  if (nothing > STDERR_FILENO) ::close(nothing);
  reset_signals(mask);
  ::execve(how.file, words, environment);
  static_cast<void>(!::write(how.report, how.no_program.data(), how.no_program.size()));
  ::_exit(exit_status(ErrorKind::input));
}

LaunchedProcess::LaunchedProcess(const std::string& file, const std::vector<std::string>& words, const LaunchPlace& place,
                                 const std::string& token) {
  end_.process = place.process;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ErrorKind::unavailable,
                fmt::format("launch: no pipe for a process ({}); raise ulimit -n", std::strerror(errno)));
  pipe_ = ends[0];
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  start(
      {file.empty() ? "/proc/self/exe" : file.c_str(), words, child_environment(place, token, ends[1]), ends[1],
       failure_report(
           ErrorKind::input,
           fmt::format(
               "launch: {} cannot be run; give a program for this machine, or a script whose first line names its interpreter, such as #!/bin/sh",
               file))});
  ::close(ends[1]);
  if (id_ >= 0) return;
  const int error = errno;
  ::close(pipe_);
  throw Error(ErrorKind::unavailable,
              fmt::format("launch: a process cannot be started ({}); raise ulimit -u, or use fewer", std::strerror(error)));
}

void LaunchedProcess::start(Start how) {
  const auto word_pointers = pointers(how.words), entry_pointers = pointers(how.environment);
  const pid_t parent = ::getpid();
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  id_ = ::fork();
  if (id_ == 0) become(how, word_pointers.data(), entry_pointers.data(), parent, before);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

LaunchedProcess::~LaunchedProcess() {
  if (running()) {
    ::kill(id_, SIGKILL);
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ::close(pipe_);
}

void LaunchedProcess::signal(int number) const {
  if (running()) ::kill(id_, number);
}

void LaunchedProcess::end_by(int number) {
  if (!end_.stopped) end_.ended_by_launch = true;  // a stopped process is the cause, whoever ends it
  signal(number);
}

void LaunchedProcess::read_reports() {
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(pipe_, buffer, sizeof buffer)) > 0;)
    unread_.append(buffer, static_cast<std::size_t>(got));
  for (std::size_t end = 0; (end = unread_.find('\n')) != std::string::npos; unread_.erase(0, end + 1)) {
    const auto report = parse_launch_report(std::string_view(unread_).substr(0, end));
    if (!report) continue;
    if (report->left) end_.left = true;
    wanted_ += report->wanted;
    if (report->membership > 0) end_.member = true;
    if (report->membership > membership_) membership_ = report->membership, door_ = report->door;
    if (!report->failure) joined_ = true;
    if (!report->failure || end_.failure) continue;  // the first failure counts
    end_.failure = report->failure;
    end_.line = report->line;
  }
}

void LaunchedProcess::note_status(int status) {
  if (WIFSTOPPED(status)) {
    end_.stopped = true;
    end_.signal = WSTOPSIG(status);
  } else if (WIFCONTINUED(status)) {
    end_.stopped = false;
    end_.signal = 0;
  } else {
    if (WIFSIGNALED(status) && !end_.stopped) end_.signal = WTERMSIG(status);
    if (WIFEXITED(status)) end_.status = WEXITSTATUS(status), end_.stopped = false, end_.signal = 0;
    id_ = 0;
  }
}

bool LaunchedProcess::look() {
  if (!running()) return false;
  read_reports();
  int status = 0;
  while (running() && ::waitpid(id_, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0) note_status(status);
  if (running()) return false;
  read_reports();
  return true;
}

}  // namespace pipetrain
