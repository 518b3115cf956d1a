// The pages in a browser: at the widths of a desk and of a phone, in light and dark.
#include <ctime>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "records/comparison_page.hpp"
#include "records/made_report.hpp"
#include "records/pages/browser.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using test::Page;

namespace {

// A report in which every part of the page has something to draw.
std::string full_report(bool live = false) {
  Page made(10'000);
  if (live) {
    made.page.state = RunState::running;
    made.page.live = true;
    made.page.written = std::time(nullptr);
  }
  StepSeries evaluations;
  for (int step = 1000; step <= 10'000; step += 1000) evaluations.add(step, 3 + 1000.0 / step);
  StepSeries falling, flat, fast;  // hardly at all
  for (int step = 1; step <= 20; ++step) {
    falling.add(step, 3e-4 - 1e-9 * step * step);
    flat.add(step, 2.7183 + 1e-6 * step);
    fast.add(step, 12'345.6 + 0.01 * step);
  }
  made.page.charts.push_back({"small numbers", "", 1, {{0, &falling}}});
  made.page.charts.push_back({"numbers alike", "", 1, {{0, &flat}}});
  made.page.charts.push_back({"large numbers", "", 1, {{0, &fast}}});
  made.page.charts.push_back({"evaluation loss", "", 1, {{0, &evaluations}}});
  made.page.marks = {{ReportPage::Mark::Kind::resume, 4000, "resumed after step 4000"},
                     {ReportPage::Mark::Kind::takeover, 7000, "takeover: process 1 was lost"}};
  made.page.rerun = {.command = "pipetrain --pp 4 --data /a/very/long/path/" + std::string(120, 'x'),
                     .facts = {{"data", "/a/very/long/path/" + std::string(120, 'x')}, {"save folder", "run"}},
                     .options = {{"--pp", "4"}},
                     .history = {"resumed after step 4000"},
                     .notes = {"a note " + std::string(200, 'y')}};
  made.page.expert_loads = {10'000, {1, 3}, std::vector<std::vector<double>>(2, std::vector<double>(128, 1.5))};
  for (auto& timeline : made.page.timelines)
    timeline.names = {"replica 0 stage 0 rank 0", "replica 0 stage 1 rank 0", "replica 1 stage 0 rank 0",
                      "replica 1 stage 1 rank 0"};
  return made.text();
}

// Steps 3 and 4 of zb-h1, with an evaluation between them.
std::string traced_page() {
  const auto plan = schedules::build_schedule("zb-h1", {4, 1, 8});
  const auto one = schedules::simulate(plan, schedules::Costs::uniform(plan.placement, 0.01, 0.01, 0.01));
  schedules::Timeline timeline = one;
  const double length = schedules::summarize(one).makespan, next = length + 0.5;
  timeline.unit = "s";
  timeline.steps = {{3, 0, length}, {4, next, next + length}};
  timeline.evaluations = {{3, length, next}};
  for (std::size_t stage = 0; stage < one.stages.size(); ++stage)
    for (schedules::Span span : one.stages[stage]) {
      span.start += next;
      span.end += next;
      timeline.stages[stage].push_back(span);
    }
  std::ostringstream out;
  write_html(out, timeline, summarize(timeline));
  return out.str();
}

// Three runs over each other, with long names.
std::string compared_page() {
  const StepSeries one = test::curve(300), other = test::curve(200);
  ComparisonPage page;
  page.runs = {"run-a.jsonl", "/a/very/long/path/" + std::string(80, 'x') + "/run-b.jsonl", "c"};
  page.figures = {
      {"steps", "300", "200", "300"}, {"last loss", "2.1234", "2.2345", "2.1"}, {"tokens/s", "1,000", "900", "1,100"}};
  page.findings = {"run-a.jsonl and c are equal in all steps",
                   "the loss of " + std::string(80, 'x') + " differs from step 1 on, by at most 3.1e-03"};
  for (const char* name : {"loss", "gradient norm", "tokens/s"})
    page.charts.push_back({name, "", 1, {{0, &one}, {1, &other}, {2, &one}}});
  std::ostringstream out;
  write_comparison(out, page);
  return out.str();
}

std::string simulated_page() {
  const auto plan = schedules::build_schedule("interleaved", {4, 2, 8});
  const auto timeline = schedules::simulate(plan, schedules::Costs::uniform(plan.placement, 1, 1, 1));
  std::ostringstream out;
  write_html(out, timeline, summarize(timeline));
  return out.str();
}

void check_everywhere(const std::string& page, const std::vector<std::string>& checks) {
  for (const test::Window& window : test::windows) {
    const TempFolder folder;
    const test::Opened opened = test::open_page(folder, page, window, checks);
    INFO(window.width << (window.dark ? " dark: " : " light: ") << opened.console);
    CHECK_THAT(opened.console, !Contains("CONSOLE"));
    CHECK(test::complaints(opened) == "");
  }
}

}  // namespace

TEST_CASE("a report can be read and used on a desk and on a phone, in light and dark", "[slow]") {
  if (!test::has_browser()) return;
  check_everywhere(full_report(), {"checks.js", "check_timeline.js", "check_report.js"});
}

TEST_CASE("a served report takes new data, and stays zoomed as it was", "[slow]") {
  if (!test::has_browser()) return;
  check_everywhere(full_report(true), {"checks.js", "check_live.js"});
}

TEST_CASE("a trace's page can be read and used on a desk and on a phone, in light and dark", "[slow]") {
  if (!test::has_browser()) return;
  check_everywhere(traced_page(), {"checks.js", "check_timeline.js", "check_trace.js"});
}

TEST_CASE("a comparison of runs can be read and used on a desk and on a phone, in light and dark", "[slow]") {
  if (!test::has_browser()) return;
  check_everywhere(compared_page(), {"checks.js", "check_comparison.js"});
}

TEST_CASE("a simulation's page can be read and used on a desk and on a phone, in light and dark", "[slow]") {
  if (!test::has_browser()) return;
  check_everywhere(simulated_page(), {"checks.js", "check_timeline.js", "check_simulation.js"});
}

TEST_CASE("a browser draws reports of 0, 10 and 1,000 steps without a word on its console", "[slow]") {
  if (!test::has_browser()) return;
  const TempFolder folder;
  for (const std::int64_t steps : {0, 10, 1000}) {
    Page page(steps);
    if (steps == 0) page.page.newest.reset();
    const test::Opened drawn = test::open_page(folder, page.text(), {});
    INFO(steps << " steps: " << drawn.console);
    CHECK(drawn.status == 0);
    CHECK_THAT(drawn.console, !Contains("CONSOLE"));
    CHECK_THAT(drawn.elements, Contains("Steps, measured and simulated") && Contains("<canvas"));
    if (steps > 0) CHECK_THAT(drawn.elements, Contains("aria-label=\"loss\"") && Contains("<path"));
  }
  // A script error would be seen.
  CHECK_THAT(test::open_page(folder, Page(10).text() + "<script>missing()</script>", {}).console, Contains("CONSOLE"));
}

TEST_CASE("a page whose run goes on says so, or for how long there was no news", "[slow]") {
  if (!test::has_browser()) return;
  const TempFolder folder;
  Page page(10);
  page.page.state = RunState::running;
  page.page.written = std::time(nullptr) - 3 * 60 - 5;
  CHECK_THAT(test::open_page(folder, page.text(), {}).elements, Contains(">no news for 3 min<"));
  page.page.written = std::time(nullptr);
  CHECK_THAT(test::open_page(folder, page.text(), {}).elements, Contains(">running<") && !Contains(">no news"));
}
