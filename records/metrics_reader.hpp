// Reads files of metrics, also while a run writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "records/metrics_line.hpp"

namespace pipetrain {

// The file itself, or the one file of metrics in a folder, told by its first line. Throws Error(input) where there is none, or
// several.
std::filesystem::path find_metrics_file(const std::filesystem::path& file_or_folder);

// Keeps the steps of a file, and those that come. Not thread-safe.
class MetricsReader {
 public:
  // Throws Error(input) when there is no such regular file.
  explicit MetricsReader(std::filesystem::path file);
  // Reads on. Whole lines only: one that is being written comes with a later call. Where a step comes again, as in a stream
  // that a resumed run appended to, it and those after it replace the earlier ones; a file that became shorter is read anew.
  // Returns whether the steps have changed. Throws Error(input), "FILE:LINE: ...".
  bool read();
  // Ascending. Only the last one has memory_bytes and stage_bubble.
  const std::vector<StepMetrics>& steps() const { return steps_; }
  // Ascending, those of the steps there are.
  const std::vector<EvaluationMetrics>& evaluations() const { return evaluations_; }

 private:
  void take(std::string_view line);

  std::filesystem::path file_;
  std::uint64_t done_ = 0;  // bytes of whole lines
  std::int64_t lines_ = 0;
  std::vector<StepMetrics> steps_;
  std::vector<EvaluationMetrics> evaluations_;
};

// All steps of a file; at least one. Throws Error(input).
std::vector<StepMetrics> read_metrics(const std::filesystem::path& file);

}  // namespace pipetrain
