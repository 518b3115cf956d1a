// What a process tells the pipetrain launch that has started it, over a pipe: so that a run of several processes ends with one
// message, whoever fails.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace pipetrain {

// Names the pipe's descriptor for the process that is started.
inline constexpr const char* launch_report_variable = "PIPETRAIN_LAUNCH_REPORT";

// --- in the process that was started; thread-safe ---
// Takes the pipe, which its own children do not get. Without such a variable the functions below do nothing.
void connect_launch_report(const std::map<std::string, std::string>& environment);
// All processes of the run have met: from now on each learns of the others' end by itself.
void report_joined();
// Whether somebody takes the error's line, which then must not be printed.
bool report_failure(ErrorKind kind, std::string_view line);

// What report_failure() writes, with its end.
std::string failure_report(ErrorKind kind, std::string_view line);

// --- in pipetrain launch ---
struct LaunchReport {
  std::optional<ErrorKind> failure;  // not given: all have joined
  std::string line;                  // of the failure
};
// One line of the pipe, without its end; nothing for what is none.
std::optional<LaunchReport> parse_launch_report(std::string_view line);

}  // namespace pipetrain
