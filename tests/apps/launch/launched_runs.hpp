// Runs that `pipetrain launch` starts, for tests: what they learn, and how to interfere with them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/live_run.hpp"
#include "bench/faults/marked_processes.hpp"

namespace pipetrain {

inline const std::string small_launch = "--device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 4 ";
inline const std::string for_ever = small_launch + "--steps 1000000 --log-interval 1000000 ";

struct LearnedByLaunch {
  std::vector<std::pair<double, double>> metrics;  // loss and norm of each step
  std::string weights;
  bool operator==(const LearnedByLaunch&) const = default;
};

// Reads the outputs of a run that had model_outputs(folder) among its options.
LearnedByLaunch learned(const std::filesystem::path& folder);
std::string model_outputs(const std::filesystem::path& folder);

// Returns the results of a run that ends by itself. `command` begins with "launch" or is empty.
LearnedByLaunch train_launched(const std::string& command, const std::string& options, const std::string& variables = "");

// Returns how often the text has the part.
std::size_t count_of_lines(const std::string& text, const std::string& part);

// A running launch, for tests that interfere with it.
class LiveLaunch {
 public:
  explicit LiveLaunch(const std::string& options, const std::string& variables = "")
      : run_("launch " + options, variables + " " + mark_.variable()) {
    run_.wait_until([&] { return run_.err().find("step 1/") != std::string::npos; });
  }
  const bench::ProcessMark& mark() const { return mark_; }
  LiveRun& run() { return run_; }
  // Waits for its end. Returns its exit status.
  int wait() { return run_.end_by(0); }

 private:
  bench::ProcessMark mark_;
  LiveRun run_;
};

}  // namespace pipetrain
