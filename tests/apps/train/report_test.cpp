// The --report page that a run leaves.
#include <nlohmann/json.hpp>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string small_report = "--device cpu --seq-len 8 --layers 2 --microbatches 4 --pp 2 ";

nlohmann::json data_of(const fs::path& page) {
  const std::string text = read_file(page), begin = "const data = ";
  const std::size_t at = text.find(begin) + begin.size();
  return nlohmann::json::parse(text.substr(at, text.find(";\n", at) - at));
}

}  // namespace

TEST_CASE("a report shows a run's curves, steps next to the simulated one, memory, settings and host") {
  const TempFolder folder;
  const fs::path page = folder.path() / "report.html";
  const Result trained = run(small_report + "--steps 5 --schedule zb-h1 --peak-tflops 0.5 --report " + page.string());
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK_THAT(trained.err, Contains("MFU is a share of 0.5 TFLOP/s a device: given by --peak-tflops") && Contains("  MFU "));
  CHECK(names_in(folder.path()) == std::vector<std::string>{"report.html"});  // no draft
  const auto data = data_of(page);
  CHECK(data["state"] == "finished");
  CHECK(data["newest"]["step"] == 5);
  CHECK(data["newest"]["mfu"].is_number());
  REQUIRE(data["charts"].size() == 7);  // without a loss scale
  for (const auto& chart : data["charts"]) CHECK(chart["lines"][0]["points"].size() == 5);
  CHECK(data["devices"].size() == 2);
  CHECK(data["newest"]["stage_bubble"].size() == 2);
  const auto& timelines = data["timelines"];
  REQUIRE(timelines.size() >= 2);
  CHECK_THAT(timelines[0]["title"].get<std::string>(), Contains("step 2, "));
  CHECK_THAT(timelines.back()["title"].get<std::string>(), Contains("simulated"));
  for (const auto& timeline : timelines) CHECK(timeline["stages"].size() == 2);
}

TEST_CASE("a report says how a run failed, and continues the curves of a resumed run") {
  const TempFolder folder;
  const std::string page = (folder.path() / "r.html").string(), metrics = (folder.path() / "m").string(),
                    command = small_report + "--save-interval 2 --save " + (folder.path() / "run").string() + " --metrics " +
                              metrics + " --report " + page + " --steps 6";
  CHECK(run(command, "PIPETRAIN_FAULT=0:4:throw").status == 1);
  const auto failed = data_of(page);
  CHECK(failed["state"] == "failed");
  CHECK_THAT(failed["state_text"].get<std::string>(), Contains("PIPETRAIN_FAULT"));
  CHECK(failed["newest"]["step"] == 3);
  REQUIRE(run(command + " --resume").status == 0);
  const auto data = data_of(page);
  CHECK(data["state"] == "finished");
  const auto& points = data["charts"][0]["lines"][0]["points"];
  REQUIRE(points.size() == 6);
  CHECK(points[0][0] == 1);
  CHECK(points[5][0] == 6);
  REQUIRE(data["marks"].size() == 1);
  CHECK(data["marks"][0][0] == "resume");
  CHECK(data["marks"][0][1] == 2);
  const auto& rerun = data["rerun"];
  CHECK_THAT(rerun["command"].get<std::string>(), Contains("pipetrain --layers") && Contains(" --resume"));
  CHECK(rerun["history"] == nlohmann::json({"resumed after step 2"}));
  CHECK_THAT(rerun["notes"].dump(), Contains("resuming after step 2"));
}

TEST_CASE("a report shows the options that differ from their defaults, and where they were given") {
  const TempFolder folder;
  const std::string page = (folder.path() / "r.html").string(),
                    text = folder.write("my text.txt", std::string(400, 'a')).string();
  REQUIRE(
      run(small_report + "--steps 2 --lr 3e-4 --seed 0 --data '" + text + "' --report " + page, "PIPETRAIN_LAYERS=3").status ==
      0);
  const auto rerun = data_of(page)["rerun"];
  const std::string command = rerun["command"];
  CHECK_THAT(command, Contains("--data '" + text + "'") && Contains("--layers 2") && !Contains("--lr") && !Contains("--seed"));
  REQUIRE(run(command.substr(std::string("pipetrain ").size())).status == 0);
  CHECK(data_of(page)["rerun"]["command"] == command);
  REQUIRE(run("--steps 1 --device cpu --seq-len 8 --report " + page, "PIPETRAIN_MICROBATCHES=4").status == 0);
  CHECK_THAT(data_of(page)["rerun"]["options"].dump(), Contains(R"json(["--microbatches","4  (PIPETRAIN_MICROBATCHES)"])json"));
}

TEST_CASE("a report that cannot be written is refused before the run, and so are impossible peak rates") {
  const TempFolder folder;
  const std::string there = folder.path().string();
  CHECK_THAT(refused(small_report + "--report " + there), Contains("is a folder; give a file"));
  CHECK_THAT(refused(small_report + "--report " + there + "/none/r.html"), Contains("there is no folder"));
  CHECK_THAT(refused(small_report + "--report " + there + "/r --trace " + there + "/r"), Contains("give each its own path"));
  CHECK_THAT(refused(small_report + "--peak-tflops 0"), Contains("--peak-tflops 0"));
}
