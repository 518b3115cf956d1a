// A run's event file for TensorBoard: FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "files/file_io.hpp"
#include "records/event_record.hpp"

namespace pipetrain {

// Not thread-safe. Every run writes a file of its own, named so that readers, which go by name, read it after those of
// earlier runs; its first event tells them to forget earlier runs' steps after `steps_done`. An event has reached the
// system when a call returns, so a killed process leaves a file that is readable up to its last whole step. A run that
// writes no step leaves neither the file nor folders made for it.
class EventFile {
 public:
  // Makes the folder and missing folders above it. Throws Error(input) about the setting "tensorboard", or WriteError.
  EventFile(const std::filesystem::path& folder, std::int64_t steps_done);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  // Throws WriteError.
  void write(std::int64_t step, const std::vector<Scalar>& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  void take_back() noexcept;

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // the deepest first
  std::optional<OutputFile> file_;
  bool has_steps_ = false;
};

}  // namespace pipetrain
