// Runs parsers on mutated inputs in a separate process, so that it also detects crashes, hangs and memory exhaustion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/fuzz/target.hpp"

namespace pipetrain::fuzz {

// The limit for one execution. Its input is at most 64 KB.
inline constexpr double most_cpu_seconds = 2;
inline constexpr std::int64_t most_heap_bytes = std::int64_t{64} << 20;  // in addition to the heap memory in use before

struct Limits {
  std::uint64_t executions = 0;  // 0: no limit
  double seconds = 0;            // 0: no limit
};

struct Finding {
  std::uint64_t execution = 0;
  std::string what;   // one line
  std::string input;  // the input that provokes it
};

struct Outcome {
  std::uint64_t executions = 0, accepted = 0;  // accepted: the parser took the input
  double seconds = 0;
  double slowest = 0;          // CPU seconds of the slowest execution
  std::int64_t most_heap = 0;  // bytes of one execution
  std::vector<Finding> findings;
};

// The input of execution N of a target is a pure function of the seed, the target's name and seeds, and N.
std::string input_of(const Target& target, std::uint64_t seed, std::uint64_t execution);

// Runs executions `first`, first + 1, ... until a limit; one of the two limits must be given. Gives up after ten
// findings. An execution may end with success, or with an Error(input) or PlanFileError whose text is one line; any
// other end is a finding. Only for single-threaded programs.
Outcome fuzz(const Target& target, std::uint64_t seed, std::uint64_t first, const Limits& limits);

// Returns what is wrong with the target's reaction to this input; nothing if all is well. Runs in this process.
std::optional<std::string> fault_of(const Target& target, std::string_view input);

}  // namespace pipetrain::fuzz
