#include "apps/launch/failed_run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "apps/launch/joined_run.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/signals/signals.hpp"

namespace pipetrain {

namespace {

void print_who_waited(const RunFailed& failure, const JoinedRun* joined) {
  if (failure.kind() == ErrorKind::input || failure.kind() == ErrorKind::numeric) return;
  if (joined && !joined->is_to_tell(failure)) return;
  for (const auto& line : failure.waiting()) print_note(line);
}

// Launchers that kill leave a second at least; those that end a run because a process has gone do so at once.
bool is_killed_by_launcher(const RunFailed& failure) {
  constexpr std::chrono::milliseconds shortest_grace{500};
  return stop_signal() != 0 && failure.process_lost() && failure.noticed() - stop_signal_time() > shortest_grace;
}

}  // namespace

int tell_failed_run(const RunFailed& failure, const JoinedRun* joined) {
  if (joined && is_killed_by_launcher(failure)) {
    if (joined->leads() || (joined->is_to_tell(failure) && joined->is_first_follower()))
      print_note(
          fmt::format("stopped by {}: another process ended before the run could save ({}); give the launcher a longer "
                      "grace time, or set --stop-grace",
                      stop_signal_name(), failure.what()));
    return stop_signal_status();
  }
  print_who_waited(failure, joined);
  print_error(failure.what(), failure.kind());
  return stop_signal() != 0 && failure.kind() == ErrorKind::aborted ? stop_signal_status() : exit_status(failure.kind());
}

}  // namespace pipetrain
