// The report page: what it keeps of long runs, and how large it gets.
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "catch.hpp"
#include "records/made_report.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using test::Page;

namespace {

std::string data_of(const std::string& text) {
  const std::string begin = "const data = ";
  const std::size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(";\n", at) - at);
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

TEST_CASE("a report shows how to run it again, and marks its events") {
  Page page(10);
  page.page.marks = {{ReportPage::Mark::Kind::resume, 4, "resumed after step 4"},
                     {ReportPage::Mark::Kind::takeover, 7, "takeover: process 1 was lost"}};
  page.page.rerun = {.command = "pipetrain --pp 4 --data 'my file'",
                     .facts = {{"data", "my file"}},
                     .options = {{"--pp", "4"}},
                     .history = {"resumed after step 4"},
                     .notes = {"a note"}};
  const auto object = nlohmann::json::parse(data_of(page.text()));
  CHECK(object["marks"] ==
        nlohmann::json::parse(R"([["resume",4,"resumed after step 4"],["takeover",7,"takeover: process 1 was lost"]])"));
  CHECK(object["rerun"]["command"] == "pipetrain --pp 4 --data 'my file'");
  CHECK(object["rerun"]["options"] == nlohmann::json::parse(R"([["--pp","4"]])"));
  CHECK(object["rerun"]["history"][0] == "resumed after step 4");
  CHECK(object["rerun"]["notes"][0] == "a note");
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
  CHECK(object["charts"][0]["lines"][0]["points"].size() == 10);
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
