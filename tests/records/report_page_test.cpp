// The report page: what it keeps of long runs, how large it gets, and that a browser draws it.
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "records/report_page.hpp"
#include "run_program.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

StepSeries curve(std::int64_t steps) {
  StepSeries series;
  for (std::int64_t step = 1; step <= steps; ++step)
    series.add(step, 2 + 8 * std::exp(-static_cast<double>(step) / 500) + 0.01 * static_cast<double>(step * 7919 % 101));
  return series;
}

// Rows of forwards and backwards without a pause.
schedules::Timeline timeline(int rows, int microbatches) {
  schedules::Timeline drawn;
  drawn.title = "step 2";
  drawn.microbatches = microbatches;
  for (int row = 0; row < rows; ++row) {
    auto& spans = drawn.stages.emplace_back();
    for (int i = 0; i < 2 * microbatches; ++i)
      spans.push_back({{i % 2 == 0 ? schedules::ActionKind::forward : schedules::ActionKind::backward, 0, i / 2},
                       schedules::WaitedFor::nothing,
                       0.001234567 * i,
                       0.001234567 * (i + 1)});
  }
  return drawn;
}

struct Page {
  ReportPage page;
  StepSeries series;

  explicit Page(std::int64_t steps, int rows = 4, int microbatches = 8) : series(curve(steps)) {
    page.title = "a model, 1f1b";
    page.state = RunState::finished;
    for (const char* name : {"loss", "gradient norm", "learning rate", "tokens/s", "TFLOP/s", "MFU", "bubble", "loss scale"})
      page.charts.push_back({name, "", 1, &series});
    page.newest.emplace();
    page.newest->step = steps;
    page.newest->loss = 2.5;
    for (int row = 0; row < rows; ++row) {
      page.newest->memory_bytes.emplace_back(1'000'000'000 + row);
      page.newest->stage_bubble.emplace_back(0.25);
    }
    for (int i = 0; i < 4; ++i) page.timelines.push_back(timeline(rows, microbatches));
    page.settings = {{"model", "tiny"}};
    page.host = {{"host", "here"}};
  }
  std::string text() const {
    std::ostringstream out;
    write_report(out, page);
    return out.str();
  }
};

std::string data_of(const std::string& text) {
  const std::string begin = "const data = ";
  const std::size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(";\nconst main", at) - at);
}

std::string browser() {
  const char* given = std::getenv("PIPETRAIN_TEST_CHROMIUM");
  return given ? given : "chromium";
}

// Returns the page's elements after its script has run, and its console messages.
Result opened(const TempFolder& folder, const std::string& text) {
  const auto file = folder.write("report.html", text);
  return run_program("timeout", "60 " + browser() +
                                    " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --enable-logging=stderr "
                                    "--user-data-dir=" +
                                    (folder.path() / "profile").string() + " --dump-dom file://" + file.string());
}

}  // namespace

TEST_CASE("a series of any length keeps its ends and every spike in bounded memory") {
  StepSeries series;
  for (std::int64_t step = 1; step <= 100'000; ++step) series.add(step, step == 77'777 ? 1000 : step == 5 ? -1000 : 1);
  series.add(100'001, std::nan(""));
  const auto& buckets = series.buckets();
  CHECK(buckets.size() <= StepSeries::most_buckets);
  CHECK(buckets.size() > StepSeries::most_buckets / 3);
  CHECK(buckets.front().first == 1);
  CHECK(buckets.back().last == 100'000);
  double least = 0, most = 0;
  std::int64_t next = 1;
  for (const auto& bucket : buckets) {
    CHECK(bucket.first == next);
    next = bucket.last + 1;
    least = std::min(least, bucket.minimum);
    most = std::max(most, bucket.maximum);
  }
  CHECK(least == -1000);
  CHECK(most == 1000);
}

TEST_CASE("a report stays under 2 MB: 10,000 steps, and many devices with many microbatches") {
  CHECK(Page(10'000).text().size() < 1'000'000);
  CHECK(Page(10'000, 256, 512).text().size() < 2'000'000);
}

TEST_CASE("a report has the loads of experts, of a bounded number of layers") {
  Page made(10);
  made.page.expert_loads = {10, {1, 3}, {{0.5, 1.5}, {2, 0}}};
  std::ostringstream out;
  write_report(out, made.page);
  CHECK_THAT(out.str(), Contains(R"("expert_loads":{"step":10,"layers":[[1,[0.5,1.5]],[3,[2.0,0.0]]]})"));
  for (std::int64_t layer = 0; layer < 2000; ++layer) {
    made.page.expert_loads->layers.push_back(layer);
    made.page.expert_loads->loads.emplace_back(256, 1.0 / 3);
  }
  std::ostringstream large;
  write_report(large, made.page);
  CHECK(large.str().size() < 2'000'000);
}

TEST_CASE("a report refers to nothing outside, and names cannot end its script") {
  Page page(10);
  page.page.title = "</script><script>alert(1)</script>\xff";
  page.page.settings = {{"<b>", "a\"b\\c"}};
  const std::string text = page.text();
  const std::string data = data_of(text);
  CHECK(data.find('<') == std::string::npos);
  const auto object = nlohmann::json::parse(data);
  CHECK(object["title"] == "</script><script>alert(1)</script>\xef\xbf\xbd");
  CHECK(object["settings"][0][1] == "a\"b\\c");
  CHECK(object["charts"].size() == 8);
  CHECK(object["charts"][0]["points"].size() == 10);
  std::string others = text;
  for (std::size_t at; (at = others.find("http://www.w3.org/2000/svg")) != others.npos;) others.erase(at, 26);
  CHECK_THAT(others,
             !Contains("http:") && !Contains("https:") && !Contains("src=") && !Contains("<link") && !Contains("@import"));
}

TEST_CASE("a page of a run that is gone is given its end, and any other is left alone") {
  Page page(10);
  page.page.title = R"(a "state":"running","state_text":"","written":5 model)";
  page.page.state = RunState::running;
  page.page.written = 1000;
  const std::string text = page.text();
  const auto ended = with_end(text, 1000, RunState::failed, "process 0 was ended by SIGKILL </script>\n");
  REQUIRE(ended);
  const auto data = nlohmann::json::parse(data_of(*ended));
  CHECK(data["state"] == "failed");
  CHECK(data["state_text"] == "process 0 was ended by SIGKILL </script>\n");
  CHECK(data["title"] == page.page.title);
  CHECK(data["written"] == 1000);
  CHECK(data["charts"] == nlohmann::json::parse(data_of(text))["charts"]);
  CHECK(data_of(*ended).find('<') == std::string::npos);
  CHECK(!with_end(*ended, 1000, RunState::failed, "again"));
  CHECK(!with_end(text, 1001, RunState::failed, "of another run"));
  CHECK(!with_end(text.substr(0, text.size() - 1), 1000, RunState::failed, "cut short"));
  CHECK(!with_end("", 0, RunState::failed, "no page"));
}

TEST_CASE("the page of a running run contains its time of writing, and compares it with the reader's clock") {
  Page page(10);
  page.page.state = RunState::running;
  page.page.written = 1234567890;
  CHECK(nlohmann::json::parse(data_of(page.text()))["written"] == 1234567890);
  CHECK_THAT(page.text(), Contains("Date.now()") && Contains("'no news for '"));
}

TEST_CASE("a browser draws reports of 10, 1,000 and 10,000 steps without a word on its console", "[slow]") {
  if (std::system(("command -v " + browser() + " > /dev/null 2>&1").c_str()) != 0)
    return test::skip("no chromium; PIPETRAIN_TEST_CHROMIUM names one elsewhere");
  const TempFolder folder;
  for (const std::int64_t steps : {0, 10, 1000, 10'000}) {
    Page page(steps);
    if (steps == 0) page.page.newest.reset();
    const Result drawn = opened(folder, page.text());
    INFO(steps << " steps: " << drawn.err);
    CHECK(drawn.status == 0);
    CHECK_THAT(drawn.err, !Contains("CONSOLE"));
    CHECK_THAT(drawn.out, Contains("Steps, measured and simulated") && Contains("<rect"));
    if (steps > 0) CHECK_THAT(drawn.out, Contains("aria-label=\"loss\"") && Contains("<path"));
  }
  // A script error would be seen.
  CHECK_THAT(opened(folder, Page(10).text() + "<script>missing()</script>").err, Contains("CONSOLE"));
  Page old(10);
  old.page.state = RunState::running;
  old.page.written = std::time(nullptr) - 3 * 60 - 5;
  CHECK_THAT(opened(folder, old.text()).out, Contains(">no news for 3 min<"));
  old.page.written = std::time(nullptr);
  CHECK_THAT(opened(folder, old.text()).out, Contains(">running<") && !Contains(">no news"));
}
