#include "apps/run_records.hpp"

#include "apps/output_files.hpp"
#include "schedules/draw.hpp"

namespace pipetrain {

namespace {

// As the file's name says: a page, a picture, or what trace viewers read.
void draw(std::ostream& out, const std::filesystem::path& file, const schedules::Timeline& timeline) {
  if (file.extension() == ".html") return write_html(out, timeline, summarize(timeline));
  if (file.extension() == ".svg") return write_svg(out, timeline);
  write_chrome_trace(out, timeline);
}

}  // namespace

RunRecords::RunRecords(const TrainOptions& options, const TrainJob& job) : options_(options) {
  if (options.trace) timeline_.emplace(job);
  if (options.profile) profile_.emplace(job, options.run.model.name);
}

void RunRecords::add(const StepReport& report) {
  has_steps_ = true;
  if (timeline_) timeline_->add(report);
  if (profile_) profile_->add(report);
}

void RunRecords::write() const {
  if (!has_steps_) return;
  OutputFiles files;
  if (timeline_)
    files.add("trace", *options_.trace, [&](std::ostream& out) { draw(out, *options_.trace, timeline_->timeline()); });
  if (profile_) files.add("profile", *options_.profile, [&](std::ostream& out) { write_profile(out, profile_->profile()); });
  files.put_in_place();
}

}  // namespace pipetrain
