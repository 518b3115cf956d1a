#include "actors/training/records/run_report.hpp"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

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
  curves_ = {{"loss", "", 1, [](const StepMetrics& m) { return m.loss; }, {}},
             {"gradient norm", "", 1, [](const StepMetrics& m) { return m.grad_norm; }, {}},
             {"learning rate", "", 1, [](const StepMetrics& m) { return m.lr; }, {}},
             {"tokens/s", "", 1, [](const StepMetrics& m) { return m.tokens_per_second; }, {}},
             {"TFLOP/s a device", "", 1, [](const StepMetrics& m) { return m.tflops_per_device; }, {}},
             {"MFU", "%", 100, [](const StepMetrics& m) { return m.mfu; }, {}},
             {"bubble", "%", 100, [](const StepMetrics& m) { return m.bubble; }, {}},
             {"balancing loss", "", 1, [](const StepMetrics& m) { return m.aux_loss; }, {}},
             {"largest load of an expert, times the mean", "", 1, [](const StepMetrics& m) { return m.expert_load_max; }, {}},
             {"loss scale", "", 1, [](const StepMetrics& m) { return m.loss_scale; }, {}}};
  for (const PreferenceField& field : preference_fields)
    curves_.push_back({field.title, "", 1, [value = field.value](const StepMetrics& m) { return m.preference.*value; }, {}});
  evaluation_curves_ = {
      {"evaluation loss", "", 1, [](const EvaluationMetrics& m) { return m.eval_loss; }, {}},
      {"perplexity", "", 1, [](const EvaluationMetrics& m) { return m.perplexity; }, {}},
      {"accuracy", "%", 100, [](const EvaluationMetrics& m) { return m.accuracy; }, {}},
      {"F1", "%", 100, [](const EvaluationMetrics& m) { return m.f1; }, {}},
      {"evaluation reward margin", "", 1, [](const EvaluationMetrics& m) { return m.preference.margin; }, {}},
      {"evaluation reward accuracy", "%", 100, [](const EvaluationMetrics& m) { return m.preference.accuracy; }, {}}};
}

void RunReport::add_history(const std::vector<StepMetrics>& steps, const std::vector<EvaluationMetrics>& evaluations) {
  for (const StepMetrics& metrics : steps) add_to(curves_, metrics);
  for (const EvaluationMetrics& metrics : evaluations) add(metrics);
}

void RunReport::add(const EvaluationMetrics& metrics) { add_to(evaluation_curves_, metrics); }

void RunReport::add(const StepMetrics& metrics, const StepReport& report) {
  add_to(curves_, metrics);
  for (const Takeover& takeover : report.takeovers) begin_.settings.emplace_back("takeover", to_string(takeover));
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
  const auto show = [&](const auto& curves) {
    for (const auto& curve : curves) page.charts.push_back({curve.title, curve.unit, curve.scale, &curve.series});
  };
  show(curves_);
  show(evaluation_curves_);
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
