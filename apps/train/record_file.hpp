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
  // Without a path nothing is written: stages record, and another process writes, until lead(). Throws Error(input) if the
  // file cannot be opened.
  RecordFile(std::optional<std::filesystem::path> path, std::string title);
  // Continues the file after the last whole step that the process before has written. Throws Error(input) if it cannot be
  // opened or another process still writes it.
  void lead(const std::filesystem::path& path);

  // Throw Error as GrowingFile does.
  void begin(schedules::RecordedRun run) override;
  void step(schedules::RecordedStep step) override;
  // Call it at the end of the run.
  void finish();

 private:
  void write_membership();

  std::optional<GrowingFile> file_;
  std::string title_;
  bool has_head_ = false;                         // in the file
  std::optional<schedules::RecordedRun> begins_;  // the present membership, where it is not in the file yet
};

// Returns null if the run is not recorded. leads: this process writes. begun: the run has trained before, so its record goes
// on.
std::shared_ptr<RecordFile> open_record(const TrainOptions& options, const TrainJob& job, bool leads, bool begun);

}  // namespace pipetrain
