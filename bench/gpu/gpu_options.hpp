// The command line of `bench gpu`.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipetrain::bench {

struct GpuOptions {
  bool help = false, list = false;
  std::vector<std::string> rows;  // patterns; empty: all that fit
  // What is measured beside our own throughput.
  std::set<std::string> parts{"peer", "variants", "limit", "shares", "schedules", "deterministic"};
  int warmup = 3, steps = 6;  // of every run
  int rounds = 1;             // of our run and the peer's, in turns
  double budget = 600;        // seconds a row may take
  double total = 1e9;         // seconds everything may take
  std::string keep;           // folder for the files of the runs; empty: none is kept
  std::string results;        // Markdown page for bench/results; empty: none
  // How the program calls itself: measure this part of the one row in this process, with these tokens and this schedule.
  std::optional<std::string> child;
  std::string data, schedule;

  bool part(const std::string& name) const { return parts.count(name) > 0; }
};

// Throws Error(input): one line.
GpuOptions parse_gpu_options(const std::vector<std::string>& command_line);
std::string gpu_help();

}  // namespace pipetrain::bench
