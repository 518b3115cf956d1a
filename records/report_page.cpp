#include "records/report_page.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>
#include <string_view>

#include "files/json_value.hpp"
#include "records/report_template.hpp"

namespace pipetrain {

namespace {

constexpr std::size_t most_rows = 64;       // for devices
constexpr std::size_t most_layers = 256;    // whose experts are drawn
constexpr std::size_t most_actions = 6000;  // drawn in one timeline
constexpr std::size_t most_columns = 1500;  // in which a row is drawn

// Rounds to six digits, all that a picture or a label can show.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double power = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(power) && power > 0 ? std::round(value * power) / power : value;
}

template <class Value>
Json page_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

const char* word_of(RunState state) {
  constexpr const char* words[] = {"running", "finished", "stopped", "failed"};
  return words[static_cast<int>(state)];
}

// Names may hold anything: a "</script>" in one must not end the script, and bytes that are not UTF-8 become U+FFFD.
std::string script_text(const Json& data) {
  std::string text = data.dump({.order = JsonOrder::as_added, .replace = true});
  for (std::size_t at = 0; (at = text.find('<', at)) != text.npos;) text.replace(at, 1, "\\u003c");
  return text;
}

Json page_json(const Facts& facts) {
  Json rows = Json::array();
  for (const auto& [name, value] : facts) rows.push_back(Json::array({name, value}));
  return rows;
}

Json page_json(const ReportPage::Chart& chart) {
  Json points = Json::array();
  for (const auto& bucket : chart.series->buckets()) {
    const double value = rounded(bucket.value * chart.scale);
    if (bucket.first == bucket.last) {
      points.push_back(Json::array({bucket.first, value}));
    } else {
      points.push_back(
          Json::array({bucket.last, value, rounded(bucket.minimum * chart.scale), rounded(bucket.maximum * chart.scale)}));
    }
  }
  Json made = Json::object({{"title", chart.title}, {"unit", chart.unit}});
  made["points"] = std::move(points);
  return made;
}

Json page_json(const std::vector<schedules::Span>& spans, double begin, double narrow) {
  Json row = Json::array();
  for (std::size_t i = 0; i < spans.size();) {
    std::size_t next = i + 1;
    while (next < spans.size() && spans[next].end - spans[i].start < narrow) ++next;
    const auto& action = spans[i].action;
    row.push_back(Json::array({std::string(1, letter(action.kind)), action.chunk, action.microbatch,
                               rounded(spans[i].start - begin), rounded(spans[next - 1].end - begin), next - i}));
    i = next;
  }
  return row;
}

Json page_json(const schedules::Timeline& timeline) {
  double begin = std::numeric_limits<double>::infinity(), end = -begin;
  for (const auto& row : timeline.stages) {
    for (const auto& span : row) {
      begin = std::min(begin, span.start);
      end = std::max(end, span.end);
    }
  }
  const std::size_t rows = std::min(timeline.stages.size(), most_rows);
  const auto columns = std::min(most_columns, most_actions / std::max<std::size_t>(rows, 1));
  Json names = Json::array(), stages = Json::array();
  for (std::size_t row = 0; row < rows; ++row) {
    names.push_back(timeline.names.empty() ? "stage " + std::to_string(row) : timeline.names[row]);
    stages.push_back(page_json(timeline.stages[row], begin, (end - begin) / static_cast<double>(columns)));
  }
  Json made = Json::object({{"title", timeline.title},
                            {"length", end > begin ? rounded(end - begin) : 0.0},
                            {"chunks", timeline.placement.chunks()},
                            {"left_out", timeline.stages.size() - rows},
                            {"names", names}});
  made["stages"] = std::move(stages);
  return made;
}

Json page_json(const ReportPage::ExpertLoads& loads) {
  Json rows = Json::array();
  for (std::size_t layer = 0; layer < std::min(loads.layers.size(), most_layers); ++layer) {
    Json row = Json::array();
    for (const double load : loads.loads[layer]) row.push_back(rounded(load));
    rows.push_back(Json::array({loads.layers[layer], std::move(row)}));
  }
  Json made = Json::object({{"step", loads.step}});
  made["layers"] = std::move(rows);
  return made;
}

Json devices_of(const ReportPage& page) {
  Json devices = Json::array();
  if (!page.newest) return devices;
  const auto& memory = page.newest->memory_bytes;
  for (std::size_t i = 0; i < std::min(memory.size(), most_rows); ++i)
    devices.push_back(Json::array(
        {i < page.device_names.size() ? page.device_names[i] : "device " + std::to_string(i), page_json(memory[i])}));
  return devices;
}

Json newest_of(const std::optional<StepMetrics>& newest) {
  if (!newest) return nullptr;
  Json bubbles = Json::array();
  for (std::size_t i = 0; i < std::min(newest->stage_bubble.size(), most_rows); ++i)
    bubbles.push_back(page_json(newest->stage_bubble[i]));
  return Json::object({{"step", newest->step},
                       {"loss", page_json(newest->loss)},
                       {"tokens_per_second", page_json(newest->tokens_per_second)},
                       {"tflops", page_json(newest->tflops_per_device)},
                       {"mfu", page_json(newest->mfu)},
                       {"bubble", page_json(newest->bubble)},
                       {"elapsed", newest->elapsed},
                       {"seconds", newest->seconds},
                       {"stage_bubble", bubbles}});
}

}  // namespace

void write_report(std::ostream& out, const ReportPage& page) {
  Json charts = Json::array(), timelines = Json::array();
  for (const auto& chart : page.charts)
    if (!chart.series->empty()) charts.push_back(page_json(chart));
  for (const auto& timeline : page.timelines) timelines.push_back(page_json(timeline));
  Json data = Json::object({{"title", page.title},
                            {"state", word_of(page.state)},
                            {"state_text", page.state_text},
                            {"written", page.written},
                            {"steps_total", page.steps_total},
                            {"seconds_left", page_json(page.seconds_left)},
                            {"newest", newest_of(page.newest)},
                            {"settings", page_json(page.settings)},
                            {"host", page_json(page.host)},
                            {"devices", devices_of(page)}});
  data["charts"] = std::move(charts);
  data["expert_loads"] = page.expert_loads ? page_json(*page.expert_loads) : Json();
  data["timelines"] = std::move(timelines);
  out << report_begin << script_text(data) << report_end;
}

std::optional<std::string> with_end(const std::string& page, std::int64_t since, RunState state, const std::string& text) {
  // Strings escape quotes, so that these texts are found only where the keys are.
  constexpr std::string_view running = R"("state":"running","state_text":"")", written = R"(,"written":)";
  if (!page.starts_with(report_begin) || !page.ends_with(report_end)) return std::nullopt;
  const std::size_t at = page.find(running, std::string_view(report_begin).size());
  if (at == page.npos || page.compare(at + running.size(), written.size(), written) != 0) return std::nullopt;
  std::int64_t seconds = 0;
  std::from_chars(page.data() + at + running.size() + written.size(), page.data() + page.size(), seconds);
  if (seconds < since) return std::nullopt;
  std::string ended = page;
  ended.replace(at, running.size(),
                std::string(R"("state":")") + word_of(state) + R"(","state_text":)" + script_text(Json(text)));
  return ended;
}

}  // namespace pipetrain
