// The records of a whole training run, which are written once it has ended: its timeline, and what its actions cost.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "actors/training/records/profile.hpp"
#include "actors/training/records/run_timeline.hpp"

namespace pipetrain {

// The files that a run is recorded in; what is not named is not recorded.
struct RecordSettings {
  std::optional<std::filesystem::path> metrics;      // one JSON line a step: records/metrics_line.hpp
  std::optional<std::filesystem::path> tensorboard;  // a folder of event files: records/event_file.hpp
  std::optional<std::filesystem::path> report;       // a page: run_report.hpp
  std::optional<std::filesystem::path> trace;        // the timeline: a page (.html), a picture (.svg), else a Chrome trace
  std::optional<std::filesystem::path> record;       // what every stage received and decided: records/flight_record.hpp
  std::optional<std::filesystem::path> profile;      // what actions and messages cost: profile.hpp
};

// Keeps what trace and profile need. Not thread-safe.
class RunRecords {
 public:
  // model: as the run named it.
  RunRecords(RecordSettings settings, const TrainJob& job, const std::string& model);
  // After every step.
  void add(const StepReport& report);
  // Opens the file of this setting ("trace"), and passes a stream to `write`.
  using WriteFile = std::function<void(const std::string& setting, const std::filesystem::path& file,
                                       const std::function<void(std::ostream&)>& write)>;
  // Calls `write_file` for each record; never for a run without a step. Throws what it throws.
  void write(const WriteFile& write_file) const;

 private:
  RecordSettings settings_;
  std::optional<RunTimeline> timeline_;
  std::optional<ProfileRecorder> profile_;
  bool has_steps_ = false;
};

}  // namespace pipetrain
