// Runs parsers on mutated inputs in a process of its own, so that a crash, a hang and a run out of memory are findings too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/fuzz/target.hpp"

namespace pipetrain::fuzz {

// Of one execution. Its input is at most 64 KB.
inline constexpr double most_cpu_seconds = 2;
inline constexpr std::int64_t most_heap_bytes = std::int64_t{64} << 20;  // on the heap, beyond what there was before

struct Limits {
  std::uint64_t executions = 0;  // 0: any number
  double seconds = 0;            // 0: any time
};

struct Finding {
  std::uint64_t execution = 0;
  std::string what;   // one line
  std::string input;  // that provokes it
};

struct Outcome {
  std::uint64_t executions = 0, accepted = 0;  // accepted: the parser took the input
  double seconds = 0;
  double slowest = 0;          // CPU seconds of one execution
  std::int64_t most_heap = 0;  // bytes of one execution
  std::vector<Finding> findings;
};

// The input of execution N of a target is a pure function of the seed, the target's name and seeds, and N.
std::string input_of(const Target& target, std::uint64_t seed, std::uint64_t execution);

// Executions `first`, first + 1, ... until a limit; one of the two must be given. Gives up after ten findings. Any end of an
// execution is a finding but success and an Error(input) or PlanFileError whose text is one line. Only for programs of one
// thread.
Outcome fuzz(const Target& target, std::uint64_t seed, std::uint64_t first, const Limits& limits);

// What is wrong with how the target takes this input; nothing when all is well. In this process.
std::optional<std::string> fault_of(const Target& target, std::string_view input);

}  // namespace pipetrain::fuzz
