#include "apps/launch/failed_run.hpp"

#include <fmt/format.h>

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

}  // namespace

int tell_failed_run(const RunFailed& failure, const JoinedRun* joined) {
  const bool asked_to_stop = stop_signal() != 0;
  if (asked_to_stop && failure.process_lost() && joined) {
    if (joined->leads() || (joined->is_to_tell(failure) && joined->is_first_follower()))
      print_note(
          fmt::format("stopped by {}, before the run had come to its end: {}; let the launcher wait longer until it "
                      "kills",
                      stop_signal_name(), failure.what()));
    return stop_signal_status();
  }
  print_who_waited(failure, joined);
  print_error(failure.what(), failure.kind());
  return asked_to_stop && failure.kind() == ErrorKind::aborted ? stop_signal_status() : exit_status(failure.kind());
}

}  // namespace pipetrain
