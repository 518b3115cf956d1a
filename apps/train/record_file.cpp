#include "apps/train/record_file.hpp"

#include <utility>

#include "actors/training/records/run_timeline.hpp"
#include "records/flight_record.hpp"

namespace pipetrain {

RecordFile::RecordFile(std::optional<std::filesystem::path> path, std::string title) : title_(std::move(title)) {
  if (path) file_.emplace("record", *path);
}

void RecordFile::begin(schedules::RecordedRun run) {
  if (file_) file_->write(flight_record_head({title_, std::move(run)}));
}

void RecordFile::step(schedules::RecordedStep step) {
  if (file_) file_->write(flight_record_step(step));
}

void RecordFile::finish() {
  if (file_) file_->write(flight_record_end());
}

std::shared_ptr<RecordFile> open_record(const TrainOptions& options, const TrainJob& job) {
  if (!options.records.record) return nullptr;
  return std::make_shared<RecordFile>(options.processes.leads() ? options.records.record : std::nullopt, run_title(job));
}

}  // namespace pipetrain
