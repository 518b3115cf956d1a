// The --metrics file: where the lines of records/metrics_line.hpp go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/output/growing_file.hpp"
#include "records/metrics_line.hpp"

namespace pipetrain {

// Not thread-safe.
class MetricsFile {
 public:
  // For a run that goes on after `steps_done`: from the first line of a later step on, which an earlier run left that got
  // further than its checkpoint, the file is cut off, and so is an unfinished last line, by begin(). With 0 the file starts
  // anew then. A stream (apps/output/output_target.hpp) is added to as it stands. Throws Error(input) when it cannot be opened
  // or read, or a disk has no room for a line.
  MetricsFile(std::filesystem::path path, std::int64_t steps_done);

  // Whether it has been found that the file can be written, as is done at once with one on a disk; streams show with write().
  bool tried() const { return file_.tried(); }
  // The run begins. Throws Error(input) where the file cannot be cut.
  void begin() { file_.begin(); }
  // The line is with the system when this returns. Throws Error(input) on a full disk; the file then ends with the line before.
  // Throws Error(aborted) when a stream is not read and the run has been asked to stop.
  void write(const StepMetrics& metrics) { write_line(to_json_line(metrics)); }
  void write(const EvaluationMetrics& metrics) { write_line(to_json_line(metrics)); }

 private:
  void write_line(const std::string& text) { file_.write(text + '\n'); }

  GrowingFile file_;
};

}  // namespace pipetrain
