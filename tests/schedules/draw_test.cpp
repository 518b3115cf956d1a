#include "schedules/draw/draw.hpp"

#include <algorithm>
#include <sstream>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

Timeline timeline_of(const char* name, const ScheduleShape& shape) {
  const Plan plan = build_schedule(name, shape);
  return simulate(plan, Costs::uniform(plan.placement, 1, 1, 1));
}

std::size_t count_text(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++found;
  return found;
}

template <class Write, class... Arguments>
std::string written(const Write& write, const Arguments&... arguments) {
  std::ostringstream out;
  write(out, arguments...);
  return out.str();
}

}  // namespace

TEST_CASE("the terminal drawing is to scale") {
  CHECK(draw_terminal(timeline_of("1f1b", {2, 1, 2}), 40) ==
        "0 F0  F1  ........B0      ....B1\n"
        "1 ....F0  B0      F1  B1      ........\n"
        "  0                                  9\n");
}

TEST_CASE("the terminal drawing fits its columns, whatever the size") {
  for (const auto& timeline : {timeline_of("1f1b", {4, 1, 8}), timeline_of("zb-v", {8, 2, 24}),
                               timeline_of("1f1b", {100, 1, 300}), timeline_of("gpipe", {1, 1, 1})})
    for (const int width : {30, 80, 200}) {
      std::istringstream lines(draw_terminal(timeline, width));
      int count = 0;
      for (std::string line; std::getline(lines, line); ++count) CHECK(static_cast<int>(line.size()) <= width);
      CHECK(count <= 42);
    }
}

TEST_CASE("rows, traces and pages hold every action") {
  const Timeline timeline = timeline_of("zb-h1", {3, 1, 4});
  const std::size_t actions = 3 * 3 * 4;
  const std::string csv = written(write_csv, timeline);
  CHECK(count_text(csv, "\n") == actions + 1);
  CHECK_THAT(csv, Contains("stage,action,kind,chunk,microbatch,start,end,waited_for\n0,F0,F,0,0,0,1,nothing\n"));
  const std::string trace = written(write_chrome_trace, timeline, 1000.0);
  CHECK(count_text(trace, "\"ph\":\"X\"") == actions);
  CHECK_THAT(trace, Contains("\"name\":\"I0\",\"cat\":\"I\",\"ts\":3000,\"dur\":1000"));
  const std::string svg = written(write_svg, timeline, 800);
  CHECK(count_text(svg, "<title>") == actions);
  const std::string html = written(write_html, timeline, summarize(timeline));
  CHECK(count_text(html, "[\"W\",0,") == 12);
  CHECK_THAT(html, Contains("'canvas'") && !Contains("https:") && !Contains("src=") && !Contains("<link"));
}

TEST_CASE("a picture has the numbers of all microbatches, or of none") {
  const Timeline timeline = timeline_of("1f1b", {4, 1, 12});
  const std::size_t others = 4 + 1 + 2 + 2;  // names, the title, the ends of the axis, the legend
  CHECK(count_text(written(write_svg, timeline, 1200), "<text ") == others + 4 * 12 * 2);
  Timeline uneven = timeline;
  uneven.stages[2][0].end = uneven.stages[2][0].start + 0.01;
  CHECK(count_text(written(write_svg, uneven, 1200), "<text ") == others);
}

TEST_CASE("steps and evaluations of a run are marked, and evaluations are not idle time") {
  Timeline timeline = timeline_of("1f1b", {2, 1, 2});  // 9 units
  const Summary before = summarize(timeline);
  for (auto& row : timeline.stages) {
    const auto first = row;
    for (Span span : first) {
      span.start += 12;
      span.end += 12;
      row.push_back(span);
    }
  }
  const Summary counted = summarize(timeline);
  timeline.steps = {{5, 0, 9}, {6, 12, 21}};
  timeline.evaluations = {{5, 9.5, 11.5}};
  const Summary summary = summarize(timeline);
  CHECK(summary.makespan == 21);
  CHECK(summary.bubble_fraction == Approx(1 - 2 * before.stages[0].busy / 19));
  for (std::size_t stage = 0; stage < 2; ++stage) {
    const StageSummary& one = summary.stages[stage];
    CHECK(one.idle == Approx(counted.stages[stage].idle - 2));
    CHECK(one.idle_warm_up + one.idle_steady + one.idle_cool_down + one.idle_communication == Approx(one.idle));
  }
  CHECK(summary.span_bubble == Approx(counted.span_bubble - 2));
  CHECK_THAT(written(write_html, timeline, summary), Contains(R"("steps":[[5,0,9],[6,12,21]],"evaluations":[[5,9.5,11.5]])"));
}

TEST_CASE("rows that are not stages carry their own names") {
  Timeline timeline = timeline_of("1f1b", {2, 1, 2});
  for (const auto& drawing : {written(write_svg, timeline, 800), written(write_chrome_trace, timeline, 1.0)})
    CHECK_THAT(drawing, Contains("stage 1"));
  timeline.names = {"stage 0 rank 0", "stage 0 rank 1"};
  for (const auto& drawing : {written(write_svg, timeline, 800), written(write_chrome_trace, timeline, 1.0),
                              written(write_html, timeline, summarize(timeline))})
    CHECK_THAT(drawing, Contains("stage 0 rank 1") && !Contains("stage 1"));
}

TEST_CASE("times have their unit, and one stage is not several") {
  Timeline timeline = timeline_of("1f1b", {1, 1, 1});
  CHECK(timeline.title == "1f1b, 1 stage, 1 microbatch");
  CHECK_THAT(written(write_svg, timeline, 800), Contains("1f1b, 1 stage, 1 microbatch<") && Contains(">3 units</text>"));
  timeline.unit = "s";
  CHECK_THAT(written(write_svg, timeline, 800), Contains(">3 s</text>"));
  CHECK_THAT(written(write_html, timeline, summarize(timeline)), Contains("\"unit\":\"s\""));
}

TEST_CASE("a picture of very many actions stays small") {
  CHECK(written(write_svg, timeline_of("1f1b", {4, 1, 20000}), 1000).size() < 2000000);
}

TEST_CASE("a title cannot break out of a page") {
  Timeline timeline = timeline_of("1f1b", {1, 1, 1});
  timeline.title = "</script><b>\"x\"";
  CHECK_THAT(written(write_html, timeline, summarize(timeline)), !Contains("</script><b>"));
  CHECK_THAT(written(write_svg, timeline, 800), !Contains("<b>"));
}

TEST_CASE("an empty timeline draws nothing and does not fail") {
  const Timeline empty;
  CHECK(draw_terminal(empty).empty());
  CHECK_FALSE(written(write_svg, empty, 100).empty());
  CHECK_FALSE(written(write_html, empty, summarize(empty)).empty());
}
