// The --metrics file, with the lines of records/metrics_line.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/output/growing_file.hpp"
#include "records/failure_note.hpp"
#include "records/metrics_line.hpp"

namespace pipetrain {

// Not thread-safe.
class MetricsFile {
 public:
  // For a run resumed after `steps_done`: begin() cuts the file off before the first line of a later step, which an
  // earlier run left that got further than its checkpoint, and before an unfinished last line. With 0 begin() starts
  // the file anew. A stream (apps/output/output_target.hpp) is appended to. Throws Error(input) if it cannot be opened
  // or read, or if a disk has no room for a line.
  MetricsFile(std::filesystem::path path, std::int64_t steps_done);

  // Returns true if a write is known to succeed. A file on a disk is tried at once, a stream by write().
  bool tried() const { return file_.tried(); }
  // Call it when the run begins. Throws Error(input) if the file cannot be cut.
  void begin();
  // The line has reached the system when this returns. Throws Error(input) on a full disk; the file then ends with the
  // previous line. Throws Error(aborted) if a stream is not read and the run has been asked to stop.
  void write(const StepMetrics& metrics) { write_line(to_json_line(metrics)); }
  void write(const EvaluationMetrics& metrics) { write_line(to_json_line(metrics)); }
  // Writes the cause to a file in the same folder, for those who watch the run.
  void fail(const FailureNote& note) const noexcept { write_failure_note(path_, note); }

 private:
  void write_line(const std::string& text) { file_.write(text + '\n'); }

  std::filesystem::path path_;
  GrowingFile file_;
};

}  // namespace pipetrain
