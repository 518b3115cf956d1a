#include "records/report_json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipetrain {

namespace {

constexpr std::size_t most_actions = 6000;  // drawn in one timeline
constexpr std::size_t most_columns = 1500;  // in which a row is drawn

Json points_json(const StepSeries& series, double scale) {
  Json points = Json::array();
  for (const auto& bucket : series.buckets()) {
    const double value = rounded(bucket.value * scale);
    if (bucket.first == bucket.last) {
      points.push_back(Json::array({bucket.first, value}));
    } else {
      points.push_back(Json::array({bucket.last, value, rounded(bucket.minimum * scale), rounded(bucket.maximum * scale)}));
    }
  }
  return points;
}

Json spans_json(const std::vector<schedules::Span>& spans, double begin, double narrow) {
  Json row = Json::array();
  for (std::size_t i = 0; i < spans.size();) {
    std::size_t next = i + 1;
    while (next < spans.size() && spans[next].end - spans[i].start < narrow) ++next;
    const auto& action = spans[i].action;
    row.push_back(
        Json::array({std::string(1, letter(action.kind)), action.chunk, action.microbatch, rounded(spans[i].start - begin),
                     rounded(spans[next - 1].end - begin), static_cast<int>(spans[i].waited_for), next - i}));
    i = next;
  }
  return row;
}

}  // namespace

double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double power = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(power) && power > 0 ? std::round(value * power) / power : value;
}

std::string script_text(const Json& data) {
  std::string text = data.dump({.order = JsonOrder::as_added, .replace = true});
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) text.replace(at, 1, "\\u003c");
  return text;
}

Json page_json(const std::vector<std::pair<std::string, std::string>>& facts) {
  Json rows = Json::array();
  for (const auto& [name, value] : facts) rows.push_back(Json::array({name, value}));
  return rows;
}

Json page_json(const std::vector<ReportChart>& charts) {
  Json all = Json::array();
  for (const ReportChart& chart : charts) {
    Json lines = Json::array();
    for (const auto& line : chart.lines)
      if (!line.series->empty())
        lines.push_back(Json::object({{"run", line.run}, {"points", points_json(*line.series, chart.scale)}}));
    if (lines.size() == 0) continue;
    Json made = Json::object({{"title", chart.title}, {"unit", chart.unit}});
    made["lines"] = std::move(lines);
    all.push_back(std::move(made));
  }
  return all;
}

Json page_json(const schedules::Timeline& timeline) {
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const auto& row : timeline.stages) {
    for (const auto& span : row) {
      begin = std::min(begin, span.start);
      end = std::max(end, span.end);
    }
  }
  const std::size_t rows = std::min(timeline.stages.size(), most_page_rows);
  const auto columns = std::min(most_columns, most_actions / std::max<std::size_t>(rows, 1));
  Json names = Json::array(), stages = Json::array();
  for (std::size_t row = 0; row < rows; ++row) {
    names.push_back(timeline.names.empty() ? "stage " + std::to_string(row) : timeline.names[row]);
    stages.push_back(spans_json(timeline.stages[row], begin, (end - begin) / static_cast<double>(columns)));
  }
  Json made = Json::object({{"title", timeline.title},
                            {"length", end > begin ? rounded(end - begin) : 0.0},
                            {"unit", timeline.unit},
                            {"chunks", timeline.placement.chunks()},
                            {"slices", timeline.slices},
                            {"steps", Json::array()},  // a timeline here is one step
                            {"evaluations", Json::array()},
                            {"left_out", timeline.stages.size() - rows},
                            {"names", names}});
  made["stages"] = std::move(stages);
  return made;
}

}  // namespace pipetrain
