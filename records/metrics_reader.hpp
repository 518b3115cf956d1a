// Reads files of metrics, even while a run writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "records/metrics_line.hpp"

namespace pipetrain {

// Returns the file itself, or the only metrics file in a folder, which its first line identifies. Throws Error(input)
// if there is none, or several.
std::filesystem::path find_metrics_file(const std::filesystem::path& file_or_folder);

// Keeps the steps of a file, and those that are added. Not thread-safe.
class MetricsReader {
 public:
  // Throws Error(input) if there is no such regular file.
  explicit MetricsReader(std::filesystem::path file);
  // Reads the lines that were added. It reads whole lines only; a line that is being written is read by a later call. If a
  // step comes again, as in a stream that a resumed run appended to, it and those after it replace the earlier ones; a file
  // that became shorter is read anew. Returns true if the steps have changed. Throws Error(input), "FILE:LINE: ...".
  bool read();
  const std::filesystem::path& file() const { return file_; }
  // Ascending. Only the last one has memory_bytes and stage_bubble.
  const std::vector<StepMetrics>& steps() const { return steps_; }
  // Ascending; those of the steps that are kept.
  const std::vector<EvaluationMetrics>& evaluations() const { return evaluations_; }

 private:
  void take(std::string_view line);

  std::filesystem::path file_;
  std::uint64_t done_ = 0;  // bytes of the whole lines read
  std::int64_t lines_ = 0;
  std::vector<StepMetrics> steps_;
  std::vector<EvaluationMetrics> evaluations_;
};

// Returns all steps of a file; at least one. Throws Error(input).
std::vector<StepMetrics> read_metrics(const std::filesystem::path& file);

}  // namespace pipetrain
