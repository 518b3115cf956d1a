#include "apps/train/record_file.hpp"

#include <utility>

#include "actors/training/records/run_timeline.hpp"
#include "records/flight_record.hpp"

namespace pipetrain {

RecordFile::RecordFile(std::optional<std::filesystem::path> path, std::string title) : title_(std::move(title)) {
  if (path) file_.emplace("record", *path);
}

void RecordFile::lead(const std::filesystem::path& path) {
  std::optional<off_t> kept;  // of a file
  file_.emplace("record", path, [&](int) { return *(kept = static_cast<off_t>(whole_steps_end(path))); });
  has_head_ = !kept || *kept > 0;
}

void RecordFile::begin(schedules::RecordedRun run) {
  begins_ = std::move(run);
  if (file_) write_membership();
}

void RecordFile::write_membership() {
  if (!begins_) return;
  const FlightRecordHead head{title_, *std::exchange(begins_, std::nullopt)};
  file_->write(std::exchange(has_head_, true) ? flight_record_membership(head) : flight_record_head(head));
}

void RecordFile::step(schedules::RecordedStep step) {
  if (!file_) return;
  write_membership();
  file_->write(flight_record_step(step));
}

void RecordFile::finish() {
  if (file_) file_->write(flight_record_end());
}

std::shared_ptr<RecordFile> open_record(const TrainOptions& options, const TrainJob& job, bool leads, bool begun) {
  if (!options.records.record) return nullptr;
  const auto record = std::make_shared<RecordFile>(leads && !begun ? options.records.record : std::nullopt, run_title(job));
  if (leads && begun) record->lead(*options.records.record);
  return record;
}

}  // namespace pipetrain
