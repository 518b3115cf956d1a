// Trains an elastic run that processes join and leave, that changes its layout and that loses processes, also while it
// changes, in an order and at times that a seed chooses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "bench/faults/run_results.hpp"

namespace pipetrain::bench {

struct ChangesOutcome {
  std::string what;                                // names the seed, the layout and the changes
  std::string problem = {};                        // why the run failed or differs; empty: it ended as the undisturbed one
  int joined = 0, left = 0, relaid = 0, lost = 0;  // changes that the run has reported
  bool started_again = false;                      // the launcher began it again from a checkpoint
};

// Keeps the results of undisturbed runs. Thread-safe for different seeds.
class SeededChanges {
 public:
  // program: pipetrain. Runs write into the folder.
  SeededChanges(std::filesystem::path program, std::filesystem::path folder);
  ChangesOutcome run(std::uint64_t seed);

 private:
  const RunResults& undisturbed(std::size_t layout);

  std::filesystem::path program_, folder_;
  UndisturbedRuns<std::size_t> undisturbed_;  // by layout
};

}  // namespace pipetrain::bench
