#include "records/report_page.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "records/report_template.hpp"

namespace pipetrain {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t most_rows = 64;       // of devices
constexpr std::size_t most_actions = 6000;  // drawn of one timeline
constexpr std::size_t most_columns = 1500;  // that a row is drawn in

// Six digits: what a picture or a label can show.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double power = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(power) && power > 0 ? std::round(value * power) / power : value;
}

template <class Value>
ordered_json page_json(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

const char* word_of(RunState state) {
  constexpr const char* words[] = {"running", "finished", "stopped", "failed"};
  return words[static_cast<int>(state)];
}

ordered_json page_json(const Facts& facts) {
  ordered_json rows = ordered_json::array();
  for (const auto& [name, value] : facts) rows.push_back({name, value});
  return rows;
}

ordered_json page_json(const ReportPage::Chart& chart) {
  ordered_json points = ordered_json::array();
  for (const auto& bucket : chart.series->buckets()) {
    const double value = rounded(bucket.value * chart.scale);
    if (bucket.first == bucket.last) {
      points.push_back({bucket.first, value});
    } else {
      points.push_back({bucket.last, value, rounded(bucket.minimum * chart.scale), rounded(bucket.maximum * chart.scale)});
    }
  }
  return {{"title", chart.title}, {"unit", chart.unit}, {"points", std::move(points)}};
}

ordered_json page_json(const std::vector<schedules::Span>& spans, double begin, double narrow) {
  ordered_json row = ordered_json::array();
  for (std::size_t i = 0; i < spans.size();) {
    std::size_t next = i + 1;
    while (next < spans.size() && spans[next].end - spans[i].start < narrow) ++next;
    const auto& action = spans[i].action;
    row.push_back({std::string(1, letter(action.kind)), action.chunk, action.microbatch, rounded(spans[i].start - begin),
                   rounded(spans[next - 1].end - begin), next - i});
    i = next;
  }
  return row;
}

ordered_json page_json(const schedules::Timeline& timeline) {
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const auto& row : timeline.stages) {
    for (const auto& span : row) {
      begin = std::min(begin, span.start);
      end = std::max(end, span.end);
    }
  }
  const std::size_t rows = std::min(timeline.stages.size(), most_rows);
  const auto columns = std::min(most_columns, most_actions / std::max<std::size_t>(rows, 1));
  ordered_json names = ordered_json::array(), stages = ordered_json::array();
  for (std::size_t row = 0; row < rows; ++row) {
    names.push_back(timeline.names.empty() ? "stage " + std::to_string(row) : timeline.names[row]);
    stages.push_back(page_json(timeline.stages[row], begin, (end - begin) / static_cast<double>(columns)));
  }
  return {{"title", timeline.title},
          {"length", end > begin ? rounded(end - begin) : 0.0},
          {"chunks", timeline.placement.chunks()},
          {"left_out", timeline.stages.size() - rows},
          {"names", std::move(names)},
          {"stages", std::move(stages)}};
}

ordered_json devices_of(const ReportPage& page) {
  ordered_json devices = ordered_json::array();
  if (!page.newest) return devices;
  const auto& memory = page.newest->memory_bytes;
  for (std::size_t i = 0; i < std::min(memory.size(), most_rows); ++i)
    devices.push_back(
        {i < page.device_names.size() ? page.device_names[i] : "device " + std::to_string(i), page_json(memory[i])});
  return devices;
}

ordered_json newest_of(const std::optional<StepMetrics>& newest) {
  if (!newest) return nullptr;
  ordered_json bubbles = ordered_json::array();
  for (std::size_t i = 0; i < std::min(newest->stage_bubble.size(), most_rows); ++i)
    bubbles.push_back(page_json(newest->stage_bubble[i]));
  return {{"step", newest->step},
          {"loss", page_json(newest->loss)},
          {"tokens_per_second", page_json(newest->tokens_per_second)},
          {"tflops", page_json(newest->tflops_per_device)},
          {"mfu", page_json(newest->mfu)},
          {"bubble", page_json(newest->bubble)},
          {"elapsed", newest->elapsed},
          {"stage_bubble", std::move(bubbles)}};
}

}  // namespace

void write_report(std::ostream& out, const ReportPage& page) {
  ordered_json charts = ordered_json::array(), timelines = ordered_json::array();
  for (const auto& chart : page.charts)
    if (!chart.series->empty()) charts.push_back(page_json(chart));
  for (const auto& timeline : page.timelines) timelines.push_back(page_json(timeline));
  const ordered_json data = {{"title", page.title},
                             {"state", word_of(page.state)},
                             {"state_text", page.state_text},
                             {"steps_total", page.steps_total},
                             {"seconds_left", page_json(page.seconds_left)},
                             {"newest", newest_of(page.newest)},
                             {"settings", page_json(page.settings)},
                             {"host", page_json(page.host)},
                             {"devices", devices_of(page)},
                             {"charts", std::move(charts)},
                             {"timelines", std::move(timelines)}};
  // Names may hold anything: a "</script>" in one must not end the script, and what is not UTF-8 becomes U+FFFD.
  std::string text = data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) text.replace(at, 1, "\\u003c");
  out << report_begin << text << report_end;
}

}  // namespace pipetrain
