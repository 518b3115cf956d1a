// The --metrics file: one JSON line a step, as programs outside the project read it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/output_target.hpp"

namespace pipetrain {

// What is not known is null in the file; so is a number that is not finite.
struct StepMetrics {
  std::int64_t step = 0;  // from 1
  std::optional<double> loss, grad_norm, lr;
  std::int64_t tokens = 0;  // trained on in this step
  double seconds = 0;       // that this step took
  double elapsed = 0;       // seconds since the process started
  std::optional<double> tokens_per_second, tokens_per_second_per_device, tflops_per_device;
  std::optional<double> mfu, bubble;                      // 0 to 1
  std::vector<std::optional<std::int64_t>> memory_bytes;  // per device; empty: null
  std::optional<double> loss_scale;
  bool skipped = false;
};

// One line without its end. Loss, grad_norm and lr have 17 significant digits, which read back as the same double.
std::string to_json_line(const StepMetrics& metrics);

// Not thread-safe.
class MetricsFile {
 public:
  // For a run that goes on after `steps_done`: from the first line of a later step on, which an earlier run left that got
  // further than its checkpoint, the file is cut off, and so is an unfinished last line. With 0 the file starts anew. A stream
  // (apps/output_target.hpp) is added to as it stands. Throws Error(input) when it cannot be opened, read or cut, or a disk has
  // no room for a line.
  MetricsFile(std::filesystem::path path, std::int64_t steps_done);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  // Whether it has been found that the file can be written, as is done at once with one on a disk; streams show with write().
  bool tried() const { return tried_; }
  // The line is with the system when this returns. Throws Error(input) on a full disk; the file then ends with the line before.
  // Throws Error(aborted) when a stream is not read and the run has been asked to stop.
  void write(const StepMetrics& metrics);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::optional<OutputStream> stream_;  // instead
  bool tried_ = false;
};

}  // namespace pipetrain
