// The records that are written when a training run has ended: its timeline, and the costs of its actions.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "actors/training/records/profile.hpp"
#include "actors/training/records/run_timeline.hpp"

namespace pipetrain {

// The files of a run's records; those without a value are not written.
struct RecordSettings {
  std::optional<std::filesystem::path> metrics;      // one JSON line a step: records/metrics_line.hpp
  std::optional<std::filesystem::path> tensorboard;  // a folder of event files: records/event_file.hpp
  std::optional<std::filesystem::path> report;       // a page: run_report.hpp
  std::optional<std::filesystem::path> trace;        // the timeline: a page (.html), a picture (.svg), else a Chrome trace
  std::optional<std::filesystem::path> record;       // inputs and decisions of every stage: records/flight_record.hpp
  std::optional<std::filesystem::path> profile;      // costs of actions and messages: profile.hpp
};

// Gathers the data for trace and profile. Not thread-safe.
class RunRecords {
 public:
  // model: its name in the settings of the run.
  RunRecords(RecordSettings settings, const TrainJob& job, const std::string& model);
  // Called after every step.
  void add(const StepReport& report);
  void add(const Evaluation& evaluation);  // when it has just ended
  // Opens the file of this setting ("trace"), and passes a stream to `write`.
  using WriteFile = std::function<void(const std::string& setting, const std::filesystem::path& file,
                                       const std::function<void(std::ostream&)>& write)>;
  // Calls `write_file` for each record, but not for a run without a step. Throws what it throws.
  void write(const WriteFile& write_file) const;

 private:
  RecordSettings settings_;
  std::optional<RunTimeline> timeline_;
  std::optional<ProfileRecorder> profile_;
  bool has_steps_ = false;
};

}  // namespace pipetrain
