// Writes the --record file during a run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/engine/pipeline.hpp"
#include "actors/training/job/train_job.hpp"
#include "apps/options/train_options.hpp"
#include "apps/output/growing_file.hpp"

namespace pipetrain {

// Every step has reached the system before the next begins, so that the record of a killed run lacks at most its last step.
class RecordFile : public RunRecorder {
 public:
  // Without a path nothing is written: stages record, and another process writes. Throws Error(input) if the file
  // cannot be opened.
  RecordFile(std::optional<std::filesystem::path> path, std::string title);

  // Throw Error as GrowingFile does.
  void begin(schedules::RecordedRun run) override;
  void step(schedules::RecordedStep step) override;
  // Call it at the end of the run.
  void finish();

 private:
  std::optional<GrowingFile> file_;
  std::string title_;
};

// Returns null if the run is not recorded.
std::shared_ptr<RecordFile> open_record(const TrainOptions& options, const TrainJob& job);

}  // namespace pipetrain
