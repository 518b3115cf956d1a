#include "apps/train/layout_requests.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/training/records/profile_layout.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "apps/output/launch_report.hpp"
#include "apps/output/stderr_lines.hpp"
#include "apps/processes/joined_run.hpp"
#include "apps/train/place_data.hpp"
#include "core/counted.hpp"
#include "core/error.hpp"
#include "core/parsing.hpp"
#include "model/config/cut.hpp"
#include "model/config/mode_names.hpp"
#include "schedules/simulate/simulate.hpp"
#include "tuning/retuned_layout.hpp"

namespace pipetrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t measured_steps = 5;

std::string layout_name(const TrainJob& job) {
  const MeshShape shape = job.mesh_shape();
  return fmt::format("pp {}{}{} dp {}, {}{}{}", shape.pp, shape.tp > 1 ? fmt::format(" tp {}", shape.tp) : "",
                     shape.cp > 1 ? fmt::format(" cp {}", shape.cp) : "", job.batch.dp, job.layout.schedule,
                     job.zero.stage > 0 ? fmt::format(", zero {}", job.zero.stage) : "",
                     job.layout.cut.empty() ? "" : ", cut " + cut_text(job.layout.cut));
}

// True where the new layout sums in the same order, so that all bits stay.
bool keeps_bits(const TrainJob& now, const TrainJob& next) {
  return now.layout.tp == next.layout.tp && now.layout.cp == next.layout.cp && now.layout.ep == next.layout.ep &&
         now.batch.dp == next.batch.dp && now.batch.microbatch == next.batch.microbatch &&
         now.batch.microbatches == next.batch.microbatches;
}

double simulated_seconds(const Profile& measured, const TrainJob& job) {
  const Profile profile = profile_for(measured, job.plan->placement, splits_backward(*job.plan), job.layout.cut);
  return schedules::summarize(schedules::simulate(*job.plan, profile.costs())).makespan;
}

}  // namespace

void LayoutChange::mark(const std::string& phase, Clock::time_point now) {
  phases += fmt::format("{}{} {:.2f}", phases.empty() ? "" : ", ", phase,
                        std::chrono::duration<double>(now - std::max(marked, since)).count());
  marked = now;
}

std::string LayoutChange::times() const {
  return fmt::format("it took {:.2f} s ({})", std::chrono::duration<double>(Clock::now() - since).count(), phases);
}

void LayoutRequests::add(StepReport report) {
  if (!options_.run.saving.folder) return;
  ++steps_;
  measured_.push_back(std::move(report));
  if (measured_.size() > measured_steps) measured_.pop_front();
}

std::optional<LayoutChange> LayoutRequests::take() {
  auto change = requested();
  if (!change) change = replaced();
  return change ? std::move(change) : retuned();
}

std::optional<LayoutChange> LayoutRequests::requested() {
  constexpr std::chrono::milliseconds pause{100};
  const auto now = std::chrono::steady_clock::now();
  const auto& folder = options_.run.saving.folder;
  if (!folder || now - looked_ < pause) return {};
  looked_ = now;
  if (resizing_) return resized();
  if (!is_request_waiting(*folder)) return {};
  const auto request = take_request(*folder);
  if (!request) return {};
  RelayoutRequest rest = *request;
  const auto wanted = take_argument(rest.arguments, nproc_argument);
  if (!wanted) return answered(rest, now);
  try {
    resize(std::move(rest), number_from<int>(*wanted).value_or(0));
  } catch (const Error& error) {
    answer(*folder, {request->id, false, "the run keeps its processes: " + error_line(error)});
  }
  return resizing_ ? resized() : std::nullopt;
}

std::optional<LayoutChange> LayoutRequests::answered(const RelayoutRequest& request, Clock::time_point since) {
  try {
    LayoutChange change = check(request);
    change.since = since;
    return change;
  } catch (const Error& error) {
    answer(*options_.run.saving.folder, {request.id, false, "the run keeps its layout: " + error_line(error)});
    return {};
  }
}

// Asks launch for more processes, which join the run, or lets the last ones go.
void LayoutRequests::resize(RelayoutRequest request, int wanted) {
  const RunPlace place = joined_ ? joined_->place() : RunPlace{};
  if (wanted != place.processes) {
    if (options_.run.elastic == Elastic::off || joined_ == nullptr)
      throw Error(ErrorKind::input, "only a run with --elastic takeover changes its number of processes");
    if (wanted > place.processes && !ask_for_processes(wanted - place.processes))
      throw Error(ErrorKind::input,
                  fmt::format("no pipetrain launch has started process 0, which could start {} more; start them with the run's "
                              "options and --join {}",
                              wanted - place.processes, options_.run.saving.folder->string()));
    for (int process = wanted; process < place.processes; ++process) joined_->dismiss(process);
  }
  resizing_ = Resizing{std::move(request), wanted, Clock::now()};
}

std::optional<LayoutChange> LayoutRequests::resized() {
  constexpr std::chrono::seconds longest{120};
  const int processes = joined_ ? joined_->place().processes : 1;
  const auto& folder = *options_.run.saving.folder;
  if (processes != resizing_->wanted && Clock::now() - resizing_->since < longest) return {};
  const Resizing done = *std::exchange(resizing_, std::nullopt);
  const double seconds = std::chrono::duration<double>(Clock::now() - done.since).count();
  if (processes != done.wanted) {
    answer(folder, {done.request.id, false,
                    fmt::format("the run has {}, after it has waited {:.0f} s for {}", counted(processes, "process", "es"),
                                seconds, done.wanted)});
    return {};
  }
  if (!done.request.arguments.empty()) return answered(done.request, done.since);
  answer(folder, {done.request.id, true,
                  fmt::format("the run has {}; it took {:.2f} s", counted(processes, "process", "es"), seconds)});
  return {};
}

// Corrects the placement once, after the first steps of a run whose data the program has placed.
std::optional<LayoutChange> LayoutRequests::replaced() {
  if (!options_.placed || has_placed_ || measured_.size() < measured_steps) return {};
  has_placed_ = true;
  const auto since = std::chrono::steady_clock::now();
  try {
    const auto better = corrected_placement(*options_.placed, job_, measured_profile());
    if (!better) return {};
    LayoutChange change = check({retune_id, better->arguments});
    change.text = better->text;
    change.since = since;
    return change;
  } catch (const std::exception& error) {  // the run is sound without it
    print_over_progress(fmt::format("offload auto: the run keeps its placement: {}", error.what()));
  }
  return {};
}

// Changes the layout where the simulation gains more than the share that pays for the change and for errors of measuring. Of
// those that do, the first one is taken that passes the checks of a request, of its memory among them.
std::optional<LayoutChange> LayoutRequests::retuned() {
  constexpr CutLimits limits{.seconds = 1, .cuts = 300};
  if (!options_.retune || measured_.size() < measured_steps || steps_ < *options_.retune) return {};
  steps_ = 0;
  const auto since = std::chrono::steady_clock::now();
  try {
    const Profile measured = measured_profile();
    const double before = retuned_seconds(measured, *job_.plan, measured.cut);
    std::vector<double> seconds;
    for (const StepReport& report : measured_) seconds.push_back(report.seconds);
    const double least_gain = least_retuned_gain(std::move(seconds));
    for (const RetunedLayout& found : retune_layout(measured, job_, limits)) {
      if (found.seconds > (1 - least_gain) * before) break;
      if (auto change = changed_to(found)) {
        change->since = since;
        change->text += fmt::format(" (simulated step {:.4g} ms -> {:.4g} ms, {:+.1f} %)", 1e3 * before, 1e3 * found.seconds,
                                    100 * (found.seconds / before - 1));
        return change;
      }
    }
  } catch (const std::exception& error) {  // the run is sound without it
    print_over_progress(fmt::format("retune: the run keeps its layout: {}", error.what()));
  }
  return {};
}

// Returns no value where the layout does not pass the checks of a request.
std::optional<LayoutChange> LayoutRequests::changed_to(const RetunedLayout& found) const {
  RelayoutRequest request{retune_id, {"--cut", cut_text(found.cut)}};
  std::string text = "retuned to ";
  if (found.schedule != job_.layout.schedule || found.chunks != job_.layout.chunks) {
    request.arguments.insert(request.arguments.end(),
                             {"--schedule", found.schedule, "--chunks", fmt::format("{}", found.chunks)});
    text += fmt::format("{}{}, ", found.schedule, found.chunks > 1 ? fmt::format(" with {} chunks", found.chunks) : "");
  }
  if (found.recompute != job_.numerics.recompute) {
    request.arguments.insert(request.arguments.end(), {"--recompute", name_of(found.recompute)});
    text += fmt::format("recompute {}, ", name_of(found.recompute));
  }
  try {
    LayoutChange change = check(request);
    change.text = text + "cut " + cut_text(found.cut);
    return change;
  } catch (const Error&) {
    return {};
  }
}

void LayoutRequests::answer(const std::filesystem::path& folder, const RelayoutAnswer& answer) {
  const std::string line = one_line("relayout: " + answer.text);
  print_over_progress(line);
  if (answer.id != retune_id) write_answer(folder, {answer.id, answer.changed, answer.text});
}

Profile LayoutRequests::measured_profile() const {
  ProfileRecorder recorder(job_, options_.run.model.name);
  for (const StepReport& report : measured_) recorder.add(report);
  return recorder.profile();
}

LayoutChange LayoutRequests::check(const RelayoutRequest& request) const {
  if (options_.records.record)
    throw Error(ErrorKind::input, "a run that is recorded keeps its layout; leave --record out of the run");
  LayoutChange change{request,
                      options_.changed(request.arguments, joined_ ? joined_->place() : RunPlace{}),
                      merged_arguments(arguments_, request.arguments),
                      {},
                      Clock::now()};
  RunSettings fresh = change.options.run;  // the checkpoint to continue from does not exist yet
  fresh.saving = {};
  std::vector<std::string> notes;
  std::optional<TrainJob> next;
  placing_errors(change.options.places, [&] { next = make_train_job(fresh, notes, {job_.dataset, job_.evaluation, nullptr}); });
  next->saves = true;
  if (next->batch.global_batch() != job_.batch.global_batch())
    throw Error(ErrorKind::input, fmt::format("the global batch would be {} instead of {}; give --microbatches too",
                                              next->batch.global_batch(), job_.batch.global_batch()));
  auto planned = planned_processes(change.options.processes, change.options.run.devices.kind);
  if (planned) planned->processes -= change.options.run.spares;
  const JobEstimate estimate = estimate_job(*next, planned, &job_);
  if (estimate.shortage) throw *estimate.shortage;
  change.text =
      fmt::format("{} -> {}{}; {}", layout_name(job_), layout_name(*next), expected_gain(*next),
                  keeps_bits(job_, *next) ? "the bits stay those of the unchanged run"
                                          : "later losses agree with the unchanged run within rounding, not to the bit");
  return change;
}

// Compares simulations of both layouts with the same measured blocks.
std::string LayoutRequests::expected_gain(const TrainJob& next) const {
  const bool same_blocks = job_.layout.tp == next.layout.tp && job_.layout.cp == next.layout.cp &&
                           job_.layout.ep == next.layout.ep && job_.batch.microbatch == next.batch.microbatch &&
                           job_.numerics.recompute == next.numerics.recompute;
  if (measured_.empty() || !same_blocks || job_.layout.slices != 1 || next.layout.slices != 1)
    return " (no simulation: the times of its blocks are not measured)";
  try {
    const Profile measured = measured_profile();
    const double before = simulated_seconds(measured, job_), after = simulated_seconds(measured, next);
    return fmt::format(" (simulated step {:.4g} ms -> {:.4g} ms, {:+.1f} %)", 1e3 * before, 1e3 * after,
                       100 * (after / before - 1));
  } catch (const std::exception& error) {  // a simulation is advice
    return fmt::format(" (no simulation: {})", error.what());
  }
}

}  // namespace pipetrain
