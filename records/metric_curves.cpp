#include "records/metric_curves.hpp"

#include <optional>
#include <string>

namespace pipetrain {

namespace {

template <class Metrics>
struct CurveRow {
  std::string title, unit;
  double scale;
  std::optional<double> Metrics::*value;                           // null for a value of preferences
  std::optional<double> PreferenceMetrics::*preference = nullptr;  // likewise

  std::optional<double> read(const Metrics& metrics) const { return value ? metrics.*value : metrics.preference.*preference; }
};

const std::vector<CurveRow<StepMetrics>>& step_rows() {
  static const auto rows = [] {
    std::vector<CurveRow<StepMetrics>> made = {
        {"loss", "", 1, &StepMetrics::loss},
        {"gradient norm", "", 1, &StepMetrics::grad_norm},
        {"learning rate", "", 1, &StepMetrics::lr},
        {"tokens/s", "", 1, &StepMetrics::tokens_per_second},
        {"TFLOP/s a device", "", 1, &StepMetrics::tflops_per_device},
        {"MFU", "%", 100, &StepMetrics::mfu},
        {"bubble", "%", 100, &StepMetrics::bubble},
        {"balancing loss", "", 1, &StepMetrics::aux_loss},
        {"largest load of an expert, times the mean", "", 1, &StepMetrics::expert_load_max},
        {"loss scale", "", 1, &StepMetrics::loss_scale}};
    for (const PreferenceField& field : preference_fields) made.push_back({field.title, "", 1, nullptr, field.value});
    return made;
  }();
  return rows;
}

const std::vector<CurveRow<EvaluationMetrics>>& evaluation_rows() {
  static const std::vector<CurveRow<EvaluationMetrics>> rows = {
      {"evaluation loss", "", 1, &EvaluationMetrics::eval_loss},
      {"perplexity", "", 1, &EvaluationMetrics::perplexity},
      {"accuracy", "%", 100, &EvaluationMetrics::accuracy},
      {"F1", "%", 100, &EvaluationMetrics::f1},
      {"evaluation reward margin", "", 1, nullptr, &PreferenceMetrics::margin},
      {"evaluation reward accuracy", "%", 100, nullptr, &PreferenceMetrics::accuracy}};
  return rows;
}

template <class Metrics>
void add_values(std::vector<StepSeries>& series, const std::vector<CurveRow<Metrics>>& rows, const Metrics& metrics) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const auto value = rows[i].read(metrics)) series[i].add(metrics.step, *value);
}

// series_of(run) returns the series of that run, in the order of the rows.
template <class Metrics, class SeriesOf>
void add_charts(std::vector<ReportChart>& charts, const std::vector<CurveRow<Metrics>>& rows, std::size_t runs,
                const SeriesOf& series_of) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ReportChart chart{rows[i].title, rows[i].unit, rows[i].scale, {}};
    for (std::size_t run = 0; run < runs; ++run)
      if (const StepSeries& series = series_of(run)[i]; !series.empty()) chart.lines.push_back({run, &series});
    if (!chart.lines.empty()) charts.push_back(std::move(chart));
  }
}

}  // namespace

MetricCurves::MetricCurves() : of_steps_(step_rows().size()), of_evaluations_(evaluation_rows().size()) {}

void MetricCurves::add(const StepMetrics& metrics) { add_values(of_steps_, step_rows(), metrics); }

void MetricCurves::add(const EvaluationMetrics& metrics) { add_values(of_evaluations_, evaluation_rows(), metrics); }

std::vector<ReportChart> charts_of(const std::vector<const MetricCurves*>& runs) {
  std::vector<ReportChart> charts;
  add_charts(
      charts, step_rows(), runs.size(), [&](std::size_t run) -> const auto& { return runs[run]->of_steps_; });
  add_charts(
      charts, evaluation_rows(), runs.size(), [&](std::size_t run) -> const auto& { return runs[run]->of_evaluations_; });
  return charts;
}

}  // namespace pipetrain
