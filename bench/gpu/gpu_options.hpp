// The command line of `bench gpu`.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipetrain::bench {

struct GpuOptions {
  bool help = false, list = false;
  std::vector<std::string> rows;  // patterns; empty: all rows that fit
  // The measurements besides our own throughput.
  std::set<std::string> parts{"peer", "variants", "limit", "shares", "schedules", "deterministic"};
  int warmup = 3, steps = 6;  // of every run
  int rounds = 1;             // alternating our run and the peer's
  double budget = 600;        // limit in seconds for a row
  double total = 1e9;         // limit in seconds for everything
  std::string keep;           // folder for the files of the runs; empty: they are removed
  std::string results;        // Markdown page for bench/results; empty: none
  // Set in a process that the program starts itself: measure this part of the only row, with these tokens and this schedule.
  std::optional<std::string> child;
  std::string data, schedule;

  bool part(const std::string& name) const { return parts.count(name) > 0; }
};

// Throws Error(input): one line.
GpuOptions parse_gpu_options(const std::vector<std::string>& command_line);
std::string gpu_help();

}  // namespace pipetrain::bench
