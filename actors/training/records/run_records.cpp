#include "actors/training/records/run_records.hpp"

#include <chrono>
#include <ostream>
#include <utility>

#include "schedules/draw/draw.hpp"

namespace pipetrain {

namespace {

void draw(std::ostream& out, const std::filesystem::path& file, const schedules::Timeline& timeline) {
  if (file.extension() == ".html") return write_html(out, timeline, summarize(timeline));
  if (file.extension() == ".svg") return write_svg(out, timeline);
  write_chrome_trace(out, timeline);
}

}  // namespace

RunRecords::RunRecords(RecordSettings settings, const TrainJob& job, const std::string& model)
    : settings_(std::move(settings)) {
  if (settings_.trace) timeline_.emplace(job);
  if (settings_.profile) profile_.emplace(job, model);
}

void RunRecords::add(const StepReport& report) {
  has_steps_ = true;
  if (timeline_) timeline_->add(report);
  if (profile_) profile_->add(report);
}

void RunRecords::add(const Evaluation& evaluation) {
  if (timeline_) timeline_->add(evaluation, std::chrono::steady_clock::now());
}

void RunRecords::write(const WriteFile& write_file) const {
  if (!has_steps_) return;
  if (timeline_)
    write_file("trace", *settings_.trace, [&](std::ostream& out) { draw(out, *settings_.trace, timeline_->timeline()); });
  if (profile_) write_file("profile", *settings_.profile, [&](std::ostream& out) { write_profile(out, profile_->profile()); });
}

}  // namespace pipetrain
