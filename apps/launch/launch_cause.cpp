#include "apps/launch/launch_cause.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "apps/signals/signals.hpp"

namespace pipetrain {

namespace {

using Name = std::function<std::string(int)>;

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

const char* advice(int number) {
  switch (number) {
    case SIGKILL:
      return " (by hand, or by the host that ran out of memory)";
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
      return "; this is a bug, please report it";
    default:
      return "";
  }
}

LaunchCause by_signal(const ProcessEnd& end, const Name& name) {
  if (end.stopped)
    return {.status = 1,
            .kind = ErrorKind::peer_lost,
            .line = fmt::format("{} was stopped by {} and no longer answered; do not stop processes of a run",
                                name(end.process), signal_name(end.signal)),
            .restart_helps = true};
  const std::string line = fmt::format("{} was ended by {}{}", name(end.process), signal_name(end.signal), advice(end.signal));
  if (asks_to_stop(end.signal))
    // It was killed before it could finish a step.
    return {.status = 128 + end.signal, .kind = ErrorKind::aborted, .line = line};
  return {.status = 1, .kind = ErrorKind::peer_lost, .line = line};
}

bool is_news(const ProcessEnd& end) { return end.failure.has_value(); }
bool is_silent(const ProcessEnd& end) { return !end.failure && !end.ended_by_launch && end.status != 0; }

// Returns true for the exit statuses of a run that a signal has asked to stop.
bool is_stop(const ProcessEnd& end) { return end.status > 128 && asks_to_stop(end.status - 128); }

// Prefers process 0, which knows which stage waited for which, and else the process that reported first.
const ProcessEnd* preferred(const std::vector<ProcessEnd>& ends, bool (*fits)(const ProcessEnd&)) {
  const ProcessEnd* found = nullptr;
  for (const ProcessEnd& end : ends)
    if (fits(end) && (!found || end.process == 0)) found = &end;
  return found;
}

}  // namespace

bool has_own_failure(const ProcessEnd& end) {
  return end.failure && *end.failure != ErrorKind::peer_lost && *end.failure != ErrorKind::aborted;
}

void forget_lost(std::vector<ProcessEnd>& ends, bool (*ends_run)(const ProcessEnd&)) {
  if (std::none_of(ends.begin(), ends.end(), ends_run)) return;
  std::erase_if(ends, [&](const ProcessEnd& end) { return !ends_run(end) && !(end.member && has_own_failure(end)); });
}

std::optional<LaunchCause> first_cause(const std::vector<ProcessEnd>& ends, int passed_on, const Name& name) {
  bool stopped = false;  // true when the passed-on signal ended a process before it could answer
  for (const ProcessEnd& end : ends) {
    if (end.signal == 0 || end.ended_by_launch) continue;
    if (end.stopped || passed_on == 0 || !asks_to_stop(end.signal)) return by_signal(end, name);
    stopped = true;
  }
  for (const auto fits : {has_own_failure, is_silent, is_news}) {
    const ProcessEnd* end = preferred(ends, fits);
    if (!end) continue;
    if (stopped && fits == is_news) break;  // they miss a process that was asked to stop
    if (end->failure) return LaunchCause{.status = end->status, .kind = *end->failure, .line = end->line};
    if (is_stop(*end)) return LaunchCause{.status = end->status, .kind = ErrorKind::aborted, .line = ""};
    return LaunchCause{.status = end->status,
                       .kind = ErrorKind::peer_lost,
                       .line = fmt::format("{} ended with status {}", name(end->process), end->status)};
  }
  if (stopped) return LaunchCause{.status = 128 + passed_on, .kind = ErrorKind::aborted, .line = "", .unsaid = true};
  return std::nullopt;
}

}  // namespace pipetrain
