// Runs the pipetrain program once, and reads its files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

// The spread of several measured steps or runs.
struct Spread {
  double median = 0, least = 0, most = 0;
};
// There must be at least one value.
Spread spread_of(std::vector<double> values);

// The figures of one run, ours or the peer's.
struct RunFigures {
  std::string variant;              // the schedule and other choices
  Spread seconds;                   // of a step
  double tokens_per_second = 0;     // per GPU, at the median
  double tflops = 0;                // model TFLOP/s per GPU, at the median
  double bubble = 0;                // ours
  double start = 0;                 // ours: seconds from the program's start to that of the first step
  std::vector<double> memory;       // bytes by rank: the most that was in use
  double memory_without_state = 0;  // bytes: the most of a rank, without parameters, gradients and optimizer state
};

// Returns the options of `pipetrain train` for this row; the caller adds the output files. `tokens`: the data.
std::vector<std::string> train_arguments(const Row& row, const Schedule& schedule, const std::filesystem::path& tokens,
                                         int steps);

// Writes samples of random ids of the model's vocabulary, as many as a step has and at least 64: the same work as the
// peer's random ids. Throws Error(input) if the file cannot be written.
void write_random_tokens(const Row& row, const std::filesystem::path& file);

// Reads the lines of a --metrics file, without the first `warmup`. Throws Error(input) if it has fewer than `warmup` +
// 1 lines.
RunFigures read_metrics(const std::filesystem::path& file, int warmup);

// Reads the bytes of parameters, gradients and optimizer state by device from the output of --dry-run. Throws Error(internal).
std::vector<double> state_bytes(const std::string& dry_run);
// Returns the largest value of memory - state over the devices.
double most_without_state(const std::vector<double>& memory, const std::vector<double>& state);

}  // namespace pipetrain::bench
