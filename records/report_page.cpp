#include "records/report_page.hpp"

#include <algorithm>
#include <charconv>
#include <ostream>
#include <string_view>

#include "files/json_value.hpp"
#include "records/page_texts.hpp"
#include "records/report_json.hpp"

namespace pipetrain {

namespace {

constexpr std::size_t most_layers = 256;  // whose experts are drawn

const char* word_of(RunState state) {
  constexpr const char* words[] = {"running", "finished", "stopped", "failed"};
  return words[static_cast<int>(state)];
}

Json loads_json(const ReportPage::ExpertLoads& loads) {
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
  for (std::size_t i = 0; i < std::min(memory.size(), most_page_rows); ++i)
    devices.push_back(Json::array(
        {i < page.device_names.size() ? page.device_names[i] : "device " + std::to_string(i), page_json(memory[i])}));
  return devices;
}

Json newest_of(const std::optional<StepMetrics>& newest) {
  if (!newest) return nullptr;
  Json bubbles = Json::array();
  for (std::size_t i = 0; i < std::min(newest->stage_bubble.size(), most_page_rows); ++i)
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

Json marks_json(const std::vector<ReportPage::Mark>& marks) {
  Json made = Json::array();
  for (const auto& mark : marks)
    made.push_back(Json::array({mark.kind == ReportPage::Mark::Kind::takeover ? "takeover" : "resume", mark.step, mark.text}));
  return made;
}

Json rerun_json(const ReportPage::Rerun& rerun) {
  return Json::object({{"command", rerun.command},
                       {"facts", page_json(rerun.facts)},
                       {"options", page_json(rerun.options)},
                       {"history", rerun.history},
                       {"notes", rerun.notes}});
}

}  // namespace

std::string report_data(const ReportPage& page) {
  Json timelines = Json::array();
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
                            {"devices", devices_of(page)},
                            {"runs", Json::array({page.title})},
                            {"marks", marks_json(page.marks)},
                            {"rerun", page.rerun ? rerun_json(*page.rerun) : Json()}});
  data["charts"] = page_json(page.charts);
  data["expert_loads"] = page.expert_loads ? loads_json(*page.expert_loads) : Json();
  data["timelines"] = std::move(timelines);
  data["live"] = page.live;
  return script_text(data);
}

void write_report(std::ostream& out, const ReportPage& page) {
  out << report_page_begin << report_data(page) << report_page_end;
}

std::optional<std::string> with_end(const std::string& page, std::int64_t since, RunState state, const std::string& text) {
  // Strings escape quotes, so that these texts are found only where the keys are.
  constexpr std::string_view running = R"("state":"running","state_text":"")", written = R"(,"written":)";
  if (!page.starts_with(report_page_begin) || !page.ends_with(report_page_end)) return std::nullopt;
  const std::size_t at = page.find(running, std::string_view(report_page_begin).size());
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
