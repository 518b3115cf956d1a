#include "actors/training/records/run_report.hpp"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>
#include <utility>

#include "actors/training/rank/parallel_layout.hpp"
#include "model/costs.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain {

namespace {

Facts facts_of(const TrainJob& job, const std::string& model, const NamedValues& settings) {
  const ModelConfig& config = job.config;
  Facts facts = {{"model", model},
                 {"parameters", fmt::format("{:.4g} million", static_cast<double>(parameter_count(config)) / 1e6)},
                 {"shape", fmt::format("{} layers, hidden {}, {} heads, vocabulary {}", config.layers, config.hidden,
                                       config.heads, config.vocabulary)},
                 {"sequence", fmt::format("{} tokens", job.dataset->sequence_length())}};
  for (const auto& [name, value] : settings)
    if (!value.empty()) facts.emplace_back(name, value);
  return facts;
}

// The loads must not all be 0.
ReportPage::ExpertLoads relative_loads(const StepReport& report) {
  ReportPage::ExpertLoads shown{report.step, {}, {}};
  for (const RoutedLayer& layer : report.routed) {
    const double mean = std::accumulate(layer.loads.begin(), layer.loads.end(), 0.0) / static_cast<double>(layer.loads.size());
    shown.layers.push_back(layer.layer);
    shown.loads.push_back(layer.loads);
    for (double& load : shown.loads.back()) load /= mean;
  }
  return shown;
}

}  // namespace

RunReport::RunReport(const TrainJob& job, const std::string& model, const NamedValues& settings)
    : no_steps_(job), plan_(job.plan), order_(job.layout.order), profile_(job, model) {
  begin_.title = fmt::format("{}, {}, pp {} tp {}{} dp {}{}, {} microbatches{}", model, job.layout.schedule, job.layout.pp,
                             job.layout.tp, job.layout.cp > 1 ? fmt::format(" cp {}", job.layout.cp) : "", job.batch.dp,
                             job.layout.ep > 1 ? fmt::format(" ep {}", job.layout.ep) : "", job.batch.microbatches,
                             job.layout.slices > 1 ? fmt::format(" of {} slices", job.layout.slices) : "");
  begin_.settings = facts_of(job, model, settings);
  const Mesh mesh = mesh_of(job);
  for (int rank = 0; rank < mesh.size(); ++rank) begin_.device_names.push_back(rank_name(mesh.at(rank), mesh.shape()));
  begin_.rerun.emplace();
  if (job.steps_done == 0) return;
  const char* why = job.relayouts > 0 ? "continued in another layout" : "resumed";
  mark(ReportPage::Mark::Kind::resume, job.steps_done, fmt::format("{} after step {}", why, job.steps_done));
}

void RunReport::mark(ReportPage::Mark::Kind kind, std::int64_t step, const std::string& text) {
  begin_.marks.push_back({kind, step, text});
  begin_.rerun->history.push_back(text);
}

void RunReport::add_history(const std::vector<StepMetrics>& steps, const std::vector<EvaluationMetrics>& evaluations) {
  const auto marks = std::exchange(begin_.marks, {});  // of this start, and so after those of earlier ones
  const auto history = std::exchange(begin_.rerun->history, {});
  const StepMetrics* before = nullptr;
  for (const StepMetrics& metrics : steps) {
    curves_.add(metrics);
    if (before && metrics.elapsed < before->elapsed)
      mark(ReportPage::Mark::Kind::resume, before->step, fmt::format("resumed after step {}", before->step));
    if (before && metrics.takeovers.value_or(0) > before->takeovers.value_or(0))
      mark(ReportPage::Mark::Kind::takeover, before->step, fmt::format("takeover after step {}", before->step));
    before = &metrics;
  }
  for (const EvaluationMetrics& metrics : evaluations) add(metrics);
  begin_.marks.insert(begin_.marks.end(), marks.begin(), marks.end());
  begin_.rerun->history.insert(begin_.rerun->history.end(), history.begin(), history.end());
}

void RunReport::add(const EvaluationMetrics& metrics) { curves_.add(metrics); }

void RunReport::add(const StepMetrics& metrics, const StepReport& report) {
  curves_.add(metrics);
  for (const Takeover& takeover : report.takeovers)
    mark(ReportPage::Mark::Kind::takeover, takeover.step, "takeover: " + to_string(takeover));
  profile_.add(report);
  const bool warms_up = !newest_;
  newest_metrics_ = metrics;
  newest_ = report;
  if (warms_up) return;
  if (!second_) second_ = report;
  if (!slowest_ || report.seconds > slowest_->seconds) slowest_ = report;
}

schedules::Timeline RunReport::timeline_of(const StepReport& report, const char* which) const {
  RunTimeline steps = no_steps_;
  steps.add(report);
  schedules::Timeline timeline = steps.timeline();
  timeline.title = fmt::format("step {}, {}", report.step, which);
  return timeline;
}

void RunReport::add_simulated(ReportPage& page) const {
  const Profile profile = profile_.profile();
  std::string why_not = profile.why_not(*plan_);
  if (why_not.empty()) {
    try {
      schedules::SimulationOptions options;
      options.order = order_;
      page.timelines.push_back(simulate(*plan_, of_slices(profile.costs(), plan_->slices), options));
      page.timelines.back().unit = "s";
      page.timelines.back().title = "simulated, from the median costs of the steps so far";
      return;
    } catch (const std::invalid_argument& error) {  // a time too short for the clock
      why_not = error.what();
    }
  }
  page.settings.emplace_back("not simulated", why_not);
}

ReportPage RunReport::page() const {
  ReportPage page = begin_;
  page.newest = newest_metrics_;
  page.charts = charts_of({&curves_});
  if (!newest_) return page;
  if (!newest_->routed.empty()) page.expert_loads = relative_loads(*newest_);
  if (second_) page.timelines.push_back(timeline_of(*second_, "the second of this start"));
  if (slowest_ && slowest_->step != second_->step)
    page.timelines.push_back(timeline_of(*slowest_, "the slowest after the first"));
  if (!slowest_ || (newest_->step != slowest_->step && newest_->step != second_->step))
    page.timelines.push_back(timeline_of(*newest_, "the newest"));
  add_simulated(page);
  return page;
}

}  // namespace pipetrain
