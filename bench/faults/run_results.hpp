// The results that two runs of the same training have in common, to the bit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/faults/program_run.hpp"

namespace pipetrain::bench {

struct RunResults {
  std::vector<std::vector<double>> steps;  // loss, gradient norm and learning rate
  std::string weights;                     // the bytes of the saved model
  bool operator==(const RunResults&) const = default;
};

// The results of undisturbed runs, each of which is made once. Thread-safe.
template <class Key>
class UndisturbedRuns {
 public:
  // Returns the results of this run. The first caller makes them; others that ask for them meanwhile wait.
  const RunResults& of(const Key& key, const std::function<RunResults()>& make) {
    Entry& entry = [&]() -> Entry& {
      const std::lock_guard lock(mutex_);
      return entries_[key];
    }();
    std::call_once(entry.made, [&] { entry.results = make(); });
    return entry.results;
  }

 private:
  struct Entry {
    std::once_flag made;
    RunResults results;
  };
  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

// Reads "metrics" and "run/model" of the folder.
RunResults results_in(const std::filesystem::path& folder);
// Returns how a run that was disturbed differs from the undisturbed one; empty if it ended with the same results. status: of
// the run's end, none if it hangs. err: what it has printed.
std::string problem_of(std::optional<int> status, const std::filesystem::path& folder, const RunResults& undisturbed,
                       const std::string& err);
std::ptrdiff_t lines_of(const std::filesystem::path& file);
// Waits until the run has written this many lines. Returns false where it ended before.
bool wait_for_lines(ProgramRun& run, const std::filesystem::path& file, std::ptrdiff_t lines);

}  // namespace pipetrain::bench
