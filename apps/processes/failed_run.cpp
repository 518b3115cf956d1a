#include "apps/processes/failed_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/engine/run_failed.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/signals/signals.hpp"

namespace pipetrain {

namespace {

void print_who_waited(const RunFailed& failure, const JoinedRun* joined) {
  if (failure.kind() == ErrorKind::input || failure.kind() == ErrorKind::numeric) return;
  if (joined && !joined->must_report(failure)) return;
  for (const auto& line : failure.waiting()) print_note(line);
}

// A launcher sends a signal to all processes, and SIGKILL about a grace later. A launcher that ends a run because a
// process has gone sends the signal after the loss, which the other processes notice at once.
bool is_killed_by_launcher(const RunFailed& failure, std::optional<std::chrono::seconds> grace) {
  constexpr std::chrono::milliseconds least_grace{1000}, early{500};
  if (!grace || stop_signal() == 0 || !failure.process_lost()) return false;
  return failure.noticed() - stop_signal_time() > std::max<std::chrono::milliseconds>(*grace, least_grace) - early;
}

}  // namespace

int report_failed_run(const RunFailed& failure, const JoinedRun* joined, std::optional<std::chrono::seconds> grace) {
  if (joined && is_killed_by_launcher(failure, grace)) {
    if (joined->leads() || (joined->must_report(failure) && joined->is_first_follower()))
      print_note(fmt::format(
          "stopped by {}: another process ended before the run could save ({}), about when the launcher's grace of {} s was over; give the launcher a longer one",
          stop_signal_name(), failure.what(), grace->count()));
    return stop_signal_status();
  }
  print_who_waited(failure, joined);
  print_error(failure.what(), failure.kind());
  return stop_signal() != 0 && failure.kind() == ErrorKind::aborted ? stop_signal_status() : exit_status(failure.kind());
}

}  // namespace pipetrain
