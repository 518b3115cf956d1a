// Trains an elastic run over processes of this machine and disturbs it once, in a way and at a time that a seed chooses.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "bench/faults/run_results.hpp"

namespace pipetrain::bench {

enum class TakeoverFault {
  kill,         // kill -9 of a process other than process 0
  stop,         // SIGSTOP
  link,         // all connections of a process are shut down
  exit,         // a process ends by itself in a step, before the verdict or after its own update
  coordinator,  // kill -9 of process 0
  two,          // kill -9 of two processes at once
};
inline constexpr int takeover_faults = 6;
const char* name_of(TakeoverFault fault);

struct TakeoverOutcome {
  TakeoverFault fault = TakeoverFault::kill;
  std::string what;            // names the seed, the layout and the fault
  std::string problem;         // why the run failed or differs; empty: it ended as the undisturbed one
  bool took_over = false;      // processes that were left went on
  bool started_again = false;  // too much was lost at once, so the launcher began again from a checkpoint
  // From the fault until the first step began that was reported by those that took over; no value where none was.
  std::optional<double> seconds;
  // The same until the first step began after the process had joined that launch started in place of the lost one.
  std::optional<double> seconds_until_joined;
};

// Keeps the results of undisturbed runs. Thread-safe for different seeds.
class SeededTakeovers {
 public:
  // program: pipetrain. Runs write into the folder.
  SeededTakeovers(std::filesystem::path program, std::filesystem::path folder);
  TakeoverOutcome run(std::uint64_t seed);

 private:
  const RunResults& undisturbed(std::size_t layout, int steps);

  std::filesystem::path program_, folder_;
  UndisturbedRuns<std::pair<std::size_t, int>> undisturbed_;  // by layout and steps
};

}  // namespace pipetrain::bench
