// The reports that a process sends over a pipe to the pipetrain launch that started it, so that a run of several
// processes ends with one message, whichever process fails.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/error_kind.hpp"

namespace pipetrain {

// The variable that gives the started process the pipe's descriptor.
inline constexpr const char* launch_report_variable = "PIPETRAIN_LAUNCH_REPORT";

// --- in the process that was started; thread-safe ---
// Takes the pipe, which the process's own children do not inherit. Without the variable the functions below do nothing.
void connect_launch_report(const std::map<std::string, std::string>& environment);
// Reports that all processes of the run have met: from now on each notices the others' end by itself.
void report_joined();
// Reports that a membership of an elastic run has begun, of which this process is a member, and where others may join it.
void report_member(int membership, std::string_view door);
// Asks launch to start this many processes, which join the run. Returns false where no launch has started this process.
bool ask_for_processes(int count);
// Reports that this process has handed over its ranks and ends; the run goes on without it.
void report_left();
// Returns true if launch takes the error's line, which then must not be printed.
bool report_failure(ErrorKind kind, std::string_view line);

// Returns the bytes that report_failure() writes, with their line end.
std::string failure_report(ErrorKind kind, std::string_view line);

// --- in pipetrain launch ---
struct LaunchReport {
  std::optional<ErrorKind> failure;  // not set: all have joined, or the process leaves
  std::string line;                  // the failure's line
  bool left = false;                 // the process leaves the run, which goes on
  int membership = 0;                // not 0: of which it is a member, with the address at which others may join
  std::string door = {};
  int wanted = 0;  // processes that it asks for
};
// Parses one line of the pipe, without its end; returns nothing for any other text.
std::optional<LaunchReport> parse_launch_report(std::string_view line);

}  // namespace pipetrain
