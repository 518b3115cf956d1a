// A run's event file for TensorBoard: FOLDER/events.out.tfevents.SECONDS.HOST.PROCESS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "files/file_io.hpp"
#include "records/event_record.hpp"

namespace pipetrain {

// Not thread-safe. Every run writes a file of its own, named so that readers, which go by name, come to it after those of
// earlier runs; its first event tells them to forget steps after `steps_done` that those had got to. What is written is with
// the system when a call returns, so a killed process leaves a file that reads to its last whole step.
class EventFile {
 public:
  // Makes the folder and what is missing above it. Throws Error(input) about the setting "tensorboard", or WriteError.
  EventFile(const std::filesystem::path& folder, std::int64_t steps_done);
  // Throws WriteError.
  void write(std::int64_t step, const std::vector<Scalar>& scalars);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<OutputFile> file_;
};

}  // namespace pipetrain
