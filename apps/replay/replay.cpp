#include "apps/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>

#include "actors/training/records/run_timeline.hpp"
#include "apps/output/output_files.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/output/terminal_width.hpp"
#include "apps/replay/moment.hpp"
#include "apps/simulate/simulate_report.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "records/replayed_record.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/simulate/median.hpp"

namespace pipetrain {

namespace {

using schedules::RecordedStep;
using schedules::Replay;
using schedules::StepKind;

// Returns the actions of the replayed step, in the form in which a run reports its devices.
std::vector<DeviceTrace> replayed_devices(const Replay& replay) {
  const auto& run = replay.run();
  const Mesh mesh(MeshShape{.dp = run.replicas, .pp = run.plan.placement.stages(), .tp = run.parts});
  const auto time = [](std::int64_t ns) { return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns)); };
  std::vector<DeviceTrace> devices;
  for (int log = 0; log < run.logs(); ++log) {
    DeviceTrace& device = devices.emplace_back();
    device.rank = mesh.at(log);
    for (const auto& one : replay.actions(log))
      if (one.end != 0) device.actions.push_back({one.action, {time(one.start), time(one.end)}, time(one.start)});
  }
  return devices;
}

RunTimeline timeline_of(const FlightRecordHead& head) {
  const auto& placement = head.run.plan.placement;
  return {head.title, placement, head.run.plan.microbatches,
          Mesh(MeshShape{.dp = head.run.replicas, .pp = placement.stages(), .tp = head.run.parts}), head.run.plan.slices};
}

SimulatedSchedule summary_of(const schedules::Plan& plan, const schedules::Timeline& timeline) {
  SimulatedSchedule run;
  run.name = plan.schedule;
  run.pp = plan.placement.stages();
  run.chunks = plan.placement.chunks();
  run.microbatches = plan.microbatches / plan.slices;
  run.summary = summarize(timeline);
  for (const auto& row : timeline.stages) {
    double compute = 0;
    for (const auto& span : row)
      if (is_compute(span.action.kind)) compute += span.end - span.start;
    run.ideal = std::max(run.ideal, compute);
    run.actions += std::ssize(row);
  }
  return run;
}

// Returns the rows of the replica and part that ends last.
schedules::Timeline last_pipeline(const schedules::RecordedRun& run, const schedules::Timeline& timeline) {
  double last = -std::numeric_limits<double>::infinity();
  int latest = 0;
  for (int log = 0; log < run.logs(); ++log) {
    const auto& row = timeline.stages[static_cast<std::size_t>(log)];
    if (!row.empty() && row.back().end > last) last = row.back().end, latest = log;
  }
  return pipeline_rows(run, timeline, run.replica_of(latest), latest % run.parts);
}

// Returns a line about a membership: which process runs which stages, and the step with which it begins.
std::string membership_line(const schedules::RecordedRun& run, std::int64_t step) {
  std::map<int, std::string> stages;  // by process
  for (int log = 0; log < run.logs(); ++log) {
    std::string& names = stages[run.process_of.empty() ? 0 : run.process_of[static_cast<std::size_t>(log)]];
    names += (names.empty() ? "" : ", ") + stage_name(run, log);
  }
  std::string line = fmt::format("membership {}, from step {} on: ", run.membership, step);
  for (const auto& [process, names] : stages)
    line += fmt::format("{}process {} has {}", process == stages.begin()->first ? "" : "; ", process, names);
  return line + "\n";
}

class Replaying {
 public:
  explicit Replaying(const ReplayOptions& options)
      : options_(options), record_(options.file), whole_(timeline_of(record_.reader().head())) {}

  void run() {
    while (const auto step = next()) {
      if (!replay(*step)) return;
    }
    if (options_.at) throw Error(ErrorKind::input, fmt::format("--at {}: the record ends before; give less", *options_.at));
    if (options_.step && !shown_)
      throw Error(ErrorKind::input,
                  fmt::format("--step {}: the record has {}; give one of them", *options_.step, steps_text()));
    if (!shown_ && (!failed_ || options_.json || files_wanted()))
      throw Error(ErrorKind::input,
                  fmt::format("{}: has no finished training step; record a run of at least one step", options_.file.string()));
  }

  void write_files() const {
    if (!shown_) return;
    const schedules::Timeline timeline = changed_ ? *changed_ : options_.step ? *shown_ : whole_.timeline();
    OutputFiles files;
    if (options_.svg) files.add("svg", *options_.svg, [&](std::ostream& out) { write_svg(out, timeline); });
    if (options_.html)
      files.add("html", *options_.html, [&](std::ostream& out) { write_html(out, timeline, summarize(timeline)); });
    if (options_.trace) files.add("trace", *options_.trace, [&](std::ostream& out) { write_chrome_trace(out, timeline); });
    if (options_.csv) files.add("csv", *options_.csv, [&](std::ostream& out) { write_csv(out, timeline); });
    files.put_in_place();
  }

  void print() const {
    for (const auto& note : options_.notes) print_note(note);
    if (moment_) {
      fmt::print("{}", *moment_);
      return;
    }
    if (options_.json) {
      std::vector<SimulatedSchedule> steps = {summary_of(record_.run().plan, *shown_)};
      if (changed_) steps.push_back(summary_of(record_.run().plan, *changed_));
      fmt::print("{}", simulation_json(steps));
      return;
    }
    fmt::print("{}\n{} replayed, {} and {}: all decided as recorded{}\n{}\n", record_.reader().head().title,
               counted(steps_, "step"), counted(record_.events_replayed(), "event"),
               counted(record_.actions_replayed(), "action"), ending(), memberships_);
    if (failed_) fmt::print("step {} when it was abandoned:\n{}\n", last_step_, moment_text(record_.replay()));
    if (!shown_) return;
    if (changed_) {
      const double before = schedules::median_of(recorded_seconds_), after = schedules::median_of(changed_seconds_);
      fmt::print("with the changes the median of {} takes {:.6g} s in place of {:.6g} s ({:+.1f} %)\n\n",
                 counted(std::ssize(recorded_seconds_), "step"), after, before, 100 * (after / before - 1));
    }
    print_step(changed_ ? "with the changes, " : "", changed_ ? *changed_ : *shown_);
  }

 private:
  void print_step(const char* how, const schedules::Timeline& timeline) const {
    const SimulatedSchedule step = summary_of(record_.run().plan, timeline);
    fmt::print("{}step {}: {:.6g} s from first start to last end, bubble {:.1f} %\n{}\n{}\n{}", how, shown_step_,
               step.summary.makespan, 100 * step.summary.bubble_fraction, stage_table(step),
               critical_path_text(last_pipeline(shown_run_, timeline)), draw_terminal(timeline, terminal_width()));
  }

  // Reads the next step. The whole timeline begins again with each membership, whose stages may be divided in other ways.
  std::optional<RecordedStep> next() {
    const int before = record_.run().membership;
    std::optional<RecordedStep> step;
    try {
      step = record_.next();
    } catch (const schedules::LogError& error) {
      record_.reader().fail(error.what());
    }
    if (step && record_.run().membership != before) {
      memberships_ += membership_line(record_.run(), step->step);
      whole_ = timeline_of(record_.reader().head());
    }
    return step;
  }

  // Returns false once all that is to be shown is known.
  bool replay(const RecordedStep& step) {
    if (is_moment_of(step)) return false;
    record_.replay().play();
    ++steps_;
    if (first_step_ == 0) first_step_ = step.step;
    last_step_ = step.step;
    failed_ = step.failed;
    if (step.kind == StepKind::evaluation || step.failed) return true;
    const auto devices = replayed_devices(record_.replay());
    whole_.add(step.step, devices);
    const bool shows = !options_.step || *options_.step == step.step;
    if (!shows && !options_.changes.any()) return true;
    RunTimeline one = timeline_of(record_.reader().head());
    one.add(step.step, devices);
    const schedules::Timeline recorded = one.timeline();
    if (options_.changes.any()) change(recorded, shows);
    if (shows) shown_ = recorded, shown_step_ = step.step, shown_run_ = record_.run();
    return true;
  }

  void change(const schedules::Timeline& recorded, bool shows) {
    for (int log = 0; log < record_.run().logs(); ++log)
      if (recorded.stages[static_cast<std::size_t>(log)].size() != record_.replay().launched(log).size())
        throw Error(
            ErrorKind::input,
            fmt::format(
                "{}: does not say how long its actions took, so nothing in it can be changed; replay it without changes",
                options_.file.string()));
    const schedules::Timeline changed = with_changes(record_.replay(), recorded, options_.changes);
    recorded_seconds_.push_back(summarize(recorded).makespan);
    changed_seconds_.push_back(summarize(changed).makespan);
    if (shows) changed_ = changed;
  }

  // Replays up to the requested moment, if it is in this step.
  bool is_moment_of(const RecordedStep& step) {
    if (!options_.at || (options_.step && (*options_.step != step.step || step.kind == StepKind::evaluation))) return false;
    Replay& replay = record_.replay();
    if (options_.step || !origin_) origin_ = replay.begins();
    const std::int64_t moment = *origin_ + static_cast<std::int64_t>(*options_.at * 1e9);
    if (moment > replay.ends()) return false;
    replay.play(moment);
    moment_ = fmt::format("{}\nstep {}{}, {} s:\n{}", record_.reader().head().title, step.step,
                          step.kind == StepKind::evaluation ? " of an evaluation" : "", *options_.at, moment_text(replay));
    return true;
  }

  bool files_wanted() const { return options_.svg || options_.html || options_.trace || options_.csv; }
  std::string steps_text() const { return steps_ == 0 ? "none" : fmt::format("steps {} to {}", first_step_, last_step_); }
  std::string ending() const {
    if (failed_) return fmt::format("; step {} failed", last_step_);
    return record_.reader().ended() ? "" : "; the run was killed, or is still running";
  }

  const ReplayOptions& options_;
  ReplayedRecord record_;
  RunTimeline whole_;                                       // of the present membership
  std::string memberships_;                                 // a line for each after the first one
  std::optional<schedules::Timeline> shown_, changed_;      // of the shown step
  std::vector<double> recorded_seconds_, changed_seconds_;  // of all training steps
  std::optional<std::string> moment_;
  std::optional<std::int64_t> origin_;
  std::int64_t steps_ = 0, first_step_ = 0, last_step_ = 0, shown_step_ = 0;
  schedules::RecordedRun shown_run_;  // its membership
  bool failed_ = false;
};

}  // namespace

int run_replay(const ReplayOptions& options) {
  try {
    Replaying replaying(options);
    replaying.run();
    replaying.write_files();
    replaying.print();
    return 0;
  } catch (const schedules::ReplayError& error) {
    throw Error(ErrorKind::internal,
                fmt::format("{}: {}; the record is of another build, or this is a bug", options.file.string(), error.what()));
  }
}

}  // namespace pipetrain
