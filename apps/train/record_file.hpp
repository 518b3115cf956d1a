// The --record file, while a run writes it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/engine/pipeline.hpp"
#include "actors/training/job/train_job.hpp"
#include "apps/options/train_options.hpp"
#include "apps/output/growing_file.hpp"

namespace pipetrain {

// Every step is with the system before the next begins, so that the record of a run that is killed lacks at most its last one.
class RecordFile : public RunRecorder {
 public:
  // Without a path nothing is written: stages record, and another process writes. Throws Error(input) where it cannot be
  // opened.
  RecordFile(std::optional<std::filesystem::path> path, std::string title);

  // Throw Error as GrowingFile does.
  void begin(schedules::RecordedRun run) override;
  void step(schedules::RecordedStep step) override;
  // The run has come to its end.
  void finish();

 private:
  std::optional<GrowingFile> file_;
  std::string title_;
};

// Null where the run is not recorded.
std::shared_ptr<RecordFile> open_record(const TrainOptions& options, const TrainJob& job);

}  // namespace pipetrain
