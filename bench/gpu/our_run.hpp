// One run of the pipetrain program, and what its files say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "bench/gpu/rows.hpp"

namespace pipetrain::bench {

// Of several measured steps or runs.
struct Spread {
  double median = 0, least = 0, most = 0;
};
// At least one value.
Spread spread_of(std::vector<double> values);

// What one run found, ours or the peer's.
struct RunFigures {
  std::string variant;              // schedule and the like
  Spread seconds;                   // of a step
  double tokens_per_second = 0;     // per GPU, at the median
  double tflops = 0;                // model TFLOP/s per GPU, at the median
  double bubble = 0;                // ours
  double start = 0;                 // ours: seconds from the program's start to that of the first step
  std::vector<double> memory;       // bytes by rank: the most that was in use
  double memory_without_state = 0;  // bytes: the most of a rank, without parameters, gradients and optimizer state
};

// The options of `pipetrain train` for this row; the caller adds the output files. `tokens`: the data.
std::vector<std::string> train_arguments(const Row& row, const Schedule& schedule, const std::filesystem::path& tokens,
                                         int steps);

// Writes samples of random ids of the model's vocabulary, as many as a step has and 64 at least: the same work as the peer's
// random ids. Throws Error(input) when the file cannot be written.
void write_random_tokens(const Row& row, const std::filesystem::path& file);

// From the lines of a --metrics file, without the first `warmup`. Throws Error(input) when it has not `warmup` + 1 lines.
RunFigures read_metrics(const std::filesystem::path& file, int warmup);

// Bytes of parameters, gradients and optimizer state by device, from what --dry-run prints. Throws Error(internal).
std::vector<double> state_bytes(const std::string& dry_run);
// The most of memory - state over the devices.
double most_without_state(const std::vector<double>& memory, const std::vector<double>& state);

}  // namespace pipetrain::bench
