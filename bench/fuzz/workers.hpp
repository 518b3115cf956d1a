// Divides the executions of a parser over processes of one host. The executions are those of one process, so what is found
// depends on the seed alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "bench/fuzz/fuzzer.hpp"

namespace pipetrain::fuzz {

// A new folder for a process's files, in memory if possible, which is removed at the end of the scope. Throws
// std::runtime_error.
class WorkFolder {
 public:
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The executions of one process: `first`, first + 1, ... as fuzz() takes them.
struct Share {
  std::uint64_t first = 0;
  Limits limits;
};
// Returns those of process `worker` of `workers`. Without a number of executions each has 2^40 of its own.
Share share_of(std::uint64_t first, const Limits& limits, int worker, int workers);

// The result of all processes, without the inputs of findings.
struct WorkersOutcome {
  std::uint64_t executions = 0, accepted = 0, findings = 0;
  double seconds = 0, cpu_seconds = 0;  // of all processes together, on the wall and on processors
  double slowest = 0;                   // CPU seconds of the slowest execution
  std::int64_t most_heap = 0;
  int failed = 0;  // processes that ended before they had a result
};

struct WorkersRun {
  std::string parser;  // the name of a target of all_targets()
  std::uint64_t seed = 1, first = 0;
  Limits limits;
  int workers = 1;
};
// Runs the parser in the processes and waits for them. Each has a folder of its own. save: called in these processes for each
// finding.
WorkersOutcome fuzz_over(const WorkersRun& run, const std::function<void(const Target&, const Finding&)>& save);

}  // namespace pipetrain::fuzz
