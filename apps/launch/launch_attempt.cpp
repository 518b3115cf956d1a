#include "apps/launch/launch_attempt.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"

namespace pipetrain {

namespace {

// The processes that receive signals, in a form that a signal handler may read.
constexpr std::size_t most_launched = 4096;
std::array<std::atomic<pid_t>, most_launched> signalled;

// The first process knows which stage waits for which in the whole run; the others would report the same.
void pass_on(int number) {
  const int error = errno;
  for (const auto& entry : signalled) {
    const pid_t process = entry;
    if (process == 0) break;
    if (process > 0) ::kill(process, number);
    if (number == SIGUSR1 && process > 0) break;
  }
  errno = error;
}

// Each process notices the others' end by itself. A step whose actions hang is given up after 10 s.
constexpr std::chrono::seconds patience_joined{15};
// No process has anything under way that takes long to end.
constexpr std::chrono::seconds patience_alone{1}, patience_kill{3};

// True for a process whose run is over, because it is complete or was asked to stop.
bool ends_run(const ProcessEnd& end) { return !end.left && end.signal == 0 && (end.status == 0 || end.status > 128); }

std::string this_host() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

LaunchAttempt::LaunchAttempt(const LaunchPlan& plan, const ProcessLabels& labels)
    : labels_(labels), foreign_(!plan.file.empty()), plan_(plan) {
  relay_signals(pass_on);
  for (int i = 0; i < plan.count && stop_signal() == 0; ++i) {
    LaunchPlace place;
    place.process = plan.first + i, place.processes = plan.processes;
    place.local = i, place.local_processes = plan.count;
    place.attempt = plan.attempt;
    place.host = plan.host, place.port = plan.port;
    start(place, plan.words);
  }
  if (stop_signal() != 0) pass_on(stop_signal());  // a signal may have come before the last process was there
}

void LaunchAttempt::start(const LaunchPlace& place, const std::vector<std::string>& words) {
  processes_.push_back(std::make_unique<LaunchedProcess>(plan_.file, words, place, plan_.token));
  signalled[processes_.size() - 1] = processes_.back()->id();
}

// Starts the processes that the run asks for, and others in place of lost ones, once those that are left have gathered.
void LaunchAttempt::start_joining() {
  for (const auto& process : processes_) {
    wanted_ += process->take_wanted();
    if (process->membership() <= membership_) continue;
    membership_ = process->membership();
    door_ = process->door();
  }
  wanted_ += static_cast<int>(std::erase_if(lost_from_, [&](int membership) { return membership < membership_; }));
  for (; wanted_ > 0 && !door_.empty() && !over_ && stop_signal() == 0 && processes_.size() + 1 < most_launched; --wanted_) {
    const auto number = static_cast<int>(processes_.size());
    LaunchPlace place;
    place.process = plan_.first + number, place.processes = place.process + 1;
    place.local = number, place.local_processes = number + 1;
    place.attempt = plan_.attempt;
    place.host = plan_.host, place.port = plan_.port;
    std::vector<std::string> words = plan_.words;
    words.insert(words.end(), {"--join", door_});
    start(place, words);
  }
}

void LaunchAttempt::note_end(const LaunchedProcess& process, bool joins) {
  const ProcessEnd& end = process.end();
  ends_.push_back(end);
  if (!plan_.continues || over_ || end.left || ends_run(end)) return;
  if (joins && process.membership() == 0)
    print_note("a process that was to join the run has ended" + (end.line.empty() ? "" : ": " + end.line));
  if (restarted_ == plan_.restarted_processes) return;
  ++restarted_;
  lost_from_.push_back(process.membership() == 0 ? membership_ - 1 : process.membership());
}

LaunchAttempt::~LaunchAttempt() {
  for (auto& entry : signalled) entry = 0;  // no process receives signals until the next attempt
}

void LaunchAttempt::wait_for_news() const {
  std::vector<pollfd> pipes;
  for (const auto& process : processes_)
    if (process->running()) pipes.push_back({process->report_pipe(), POLLIN, 0});
  constexpr int look_again_ms = 20;
  ::poll(pipes.data(), pipes.size(), look_again_ms);
}

bool LaunchAttempt::look() {
  bool any = false;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i]->running()) continue;
    if (processes_[i]->look()) {
      signalled[i] = -1;  // another process may soon get its number
      note_end(*processes_[i], i >= static_cast<std::size_t>(plan_.count));
    }
    any |= processes_[i]->running();
  }
  return any;
}

bool LaunchAttempt::all_joined() const {
  const auto first = processes_.begin() + std::min(plan_.count, static_cast<int>(processes_.size()));
  return foreign_ || std::all_of(processes_.begin(), first, [](const auto& process) { return process->joined(); });
}

// Returns true if one of them ended so that the others cannot go on, or have nothing left to do.
bool LaunchAttempt::ended_badly() const {
  if (plan_.continues && all_joined()) return std::any_of(ends_.begin(), ends_.end(), ends_run);
  return std::any_of(ends_.begin(), ends_.end(), [&](const ProcessEnd& end) {
    return end.status != 0 || end.signal != 0 || (end.process == 0 && !foreign_);
  });
}

void LaunchAttempt::end_remaining() {
  if (!over_ && ended_badly()) over_ = Clock::now();
  if (!over_) return;
  const auto since = Clock::now() - *over_;
  const bool joined = all_joined();
  const bool only_stopped = std::all_of(processes_.begin(), processes_.end(),
                                        [](const auto& process) { return !process->running() || process->stopped(); });
  for (const auto& process : processes_) {
    if (!process->running()) continue;
    if (only_stopped || since > (joined ? patience_joined : patience_kill)) {
      process->end_by(SIGKILL);
    } else if (!joined && since > patience_alone && !process->end().ended_by_launch) {
      process->end_by(SIGTERM);
    }
  }
}

std::optional<LaunchCause> LaunchAttempt::wait() {
  while (look()) {
    end_remaining();
    start_joining();
    wait_for_news();
  }
  if (plan_.continues) forget_lost(ends_, ends_run);
  const std::string host = this_host();
  return first_cause(ends_, stop_signal(), [&](int process) { return labels_.name(process, host); });
}

}  // namespace pipetrain
