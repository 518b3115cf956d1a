// Reads a record and replays its steps, membership by membership.
#pragma once

#include <filesystem>
#include <optional>

#include "records/flight_record.hpp"
#include "schedules/record/replay.hpp"

namespace pipetrain {

// Not thread-safe.
class ReplayedRecord {
 public:
  // Throws as FlightRecordReader does.
  explicit ReplayedRecord(const std::filesystem::path& file) : reader_(file) {}

  const FlightRecordReader& reader() const { return reader_; }
  const schedules::RecordedRun& run() const { return reader_.head().run; }
  // Returns the replay of the present membership, in which the step that was read last is loaded; not before the first one.
  schedules::Replay& replay() { return *replay_; }
  const schedules::Replay& replay() const { return *replay_; }
  // Reads the next step and loads it; nothing at the end of the file. Throws as FlightRecordReader::next(), and the
  // constructor of schedules::Replay and its load() do.
  std::optional<schedules::RecordedStep> next();

  // Return the counts of all memberships so far.
  std::int64_t actions_replayed() const { return actions_ + (replay_ ? replay_->actions_replayed() : 0); }
  std::int64_t events_replayed() const { return events_ + (replay_ ? replay_->events_replayed() : 0); }

 private:
  FlightRecordReader reader_;
  std::optional<schedules::Replay> replay_;
  std::int64_t actions_ = 0, events_ = 0;  // of the memberships before
};

}  // namespace pipetrain
