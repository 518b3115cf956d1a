// train --record and pipetrain replay, as a user's shell would run them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

const std::string small_replay = "--device cpu --seq-len 8 --steps 4 ";

}  // namespace

TEST_CASE("a recorded run replays to the trace that it wrote itself, byte by byte") {
  const TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  for (const char* how : {"--pp 4", "--pp 2 --schedule zb-v --dp 2", "--pp 2 --chunks 2 --schedule interleaved --order ready",
                          "launch --nproc 2 --pp 2 --dp 2"}) {
    INFO(how);
    const bool launches = std::string(how).starts_with("launch");
    const std::string command = launches ? std::string(how) + " " + small_replay : small_replay + how;
    REQUIRE(run(command + " --record " + file("run.rec") + " --trace " + file("run.json")).status == 0);
    const Result replayed = run("replay " + file("run.rec") + " --trace " + file("replay.json"));
    CAPTURE(replayed.err);
    REQUIRE(replayed.status == 0);
    CHECK_THAT(replayed.out, Contains("4 steps replayed") && Contains("all decided as recorded\n"));
    CHECK(read_file(file("run.json")) == read_file(file("replay.json")));
  }
}

TEST_CASE("a record takes at most 1 KB a step and stage, and changes no bit of the run") {
  const TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(run(small_replay + "--pp 4 --microbatches 16 --metrics " + file("a")).status == 0);
  REQUIRE(run(small_replay + "--pp 4 --microbatches 16 --metrics " + file("b") + " --record " + file("run.rec")).status == 0);
  CHECK(run("compare " + file("a") + " " + file("b")).status == 0);
  CHECK(fs::file_size(file("run.rec")) <= 4 * 4 * 1024);
}

TEST_CASE("replay shows a step, a moment of it, and files like simulate's") {
  const TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  REQUIRE(run(small_replay + "--pp 2 --microbatches 4 --record " + file("run.rec")).status == 0);
  const Result shown = run("replay " + file("run.rec") + " --step 2 --json --svg " + file("a.svg") + " --html " +
                           file("a.html") + " --csv " + file("a.csv"));
  REQUIRE(shown.status == 0);
  const auto object = nlohmann::json::parse(shown.out).at(0);
  CHECK(object["schedule"] == "1f1b");
  CHECK(object["pp"] == 2);
  CHECK(object["peak_activations"] == nlohmann::json({2, 1}));
  CHECK(object["actions"] == 2 * (2 * 4 + 2));
  CHECK_THAT(read_file(file("a.svg")), Contains("<svg") && Contains("steps 2 to 2"));
  CHECK_THAT(read_file(file("a.html")), Contains("<html"));
  const Result begin = run("replay " + file("run.rec") + " --step 2 --at 0");
  CHECK(begin.status == 0);
  CHECK_THAT(begin.out, Contains("step 2, 0 s:\n") && Contains("stage 0: runs F0") && Contains("stage 1: ") &&
                            Contains("activations for stage 1: ") && Contains("targets for stage 1: "));
}

TEST_CASE("a changed cost changes what follows from it, and no change changes nothing") {
  const TempFolder folder;
  const std::string file = (folder.path() / "run.rec").string();
  for (const char* how : {"--pp 4", "--pp 2 --schedule zb-v --dp 2", "--pp 2 --order ready"}) {
    INFO(how);
    REQUIRE(run(small_replay + how + " --record " + file).status == 0);
    const auto changed = [&](const std::string& options) {
      const Result result = run("replay " + file + " --json " + options);
      CAPTURE(result.err);
      REQUIRE(result.status == 0);
      const auto steps = nlohmann::json::parse(result.out);
      REQUIRE(steps.size() == 2);
      return steps[1]["makespan"].get<double>() / steps[0]["makespan"].get<double>();
    };
    CHECK(changed("--stage-factor 1") == Approx(1).epsilon(1e-6));
    CHECK(changed("--stage-factor 100") > 5);
    CHECK(changed("--link-factor 1000") > 1);
    CHECK(changed("--link-factor 0.001") <= 1);
  }
  CHECK_THAT(refused("replay " + file + " --stage-factor 1,2,3"),
             Contains("--stage-factor") && Contains("3 values for 2 stages"));
  CHECK_THAT(refused("replay " + file + " --link-factor 0"), Contains("--link-factor"));
}

TEST_CASE("a ready run is run again in its own order, step by step, with its bits") {
  const TempFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string layout = small_replay + "--pp 3 --layers 3 --microbatches 8 ";
  REQUIRE(run(layout + "--order ready --metrics " + file("a") + " --trace " + file("a.json") + " --record " + file("run.rec"))
              .status == 0);
  for (const char* start : {"", "launch --nproc 3 "}) {
    const Result again =
        run(start + layout + "--order replay:" + file("run.rec") + " --metrics " + file("b") + " --trace " + file("b.json"));
    CAPTURE(again.err);
    REQUIRE(again.status == 0);
    CHECK(run("compare " + file("a") + " " + file("b")).status == 0);
    const auto order = [&](const char* name) {  // of each stage, by time
      std::map<int, std::vector<std::pair<double, std::string>>> rows;
      const auto trace = nlohmann::json::parse(read_file(file(name)));
      for (const auto& event : trace["traceEvents"])
        if (event["ph"] == "X") rows[event["tid"]].emplace_back(event["ts"], event["name"]);
      std::string text;
      for (auto& [row, actions] : rows) {
        std::sort(actions.begin(), actions.end());
        for (const auto& [time, action] : actions) text += action + " ";
      }
      return text;
    };
    CHECK(order("a.json") == order("b.json"));
  }
  CHECK_THAT(refused(layout + "--order replay:" + file("none")), Contains("--order") && Contains("no such record"));
  CHECK_THAT(refused(layout + "--steps 5 --order replay:" + file("run.rec")),
             Contains("--steps 5") && Contains("ends with step 4"));
  CHECK_THAT(refused(small_replay + "--pp 2 --order replay:" + file("run.rec")),
             Contains("--order") && Contains("the record is of 1f1b, pp 3"));
  CHECK_THAT(refused(layout + "--order replay:" + file("run.rec") + " --record " + file("other")), Contains("--record"));
}

TEST_CASE("the record of a failed run shows what every stage waited for") {
  const TempFolder folder;
  const std::string file = (folder.path() / "run.rec").string();
  const Result failed = run(small_replay + "--pp 2 --stall-timeout 1 --record " + file, "PIPETRAIN_FAULT=1:2:hang");
  CHECK(failed.status == 1);
  const Result replayed = run("replay " + file);
  CAPTURE(replayed.err);
  CHECK(replayed.status == 0);
  CHECK_THAT(replayed.out,
             Contains("step 2 failed") && Contains("step 2 when it was abandoned") && Contains("stage 1: runs F0"));
}

TEST_CASE("replay refuses incomplete records, and options that it cannot serve") {
  const TempFolder folder;
  const std::string file = (folder.path() / "run.rec").string();
  REQUIRE(run(small_replay + "--pp 2 --record " + file).status == 0);
  CHECK_THAT(refused("replay"), Contains("takes one record"));
  CHECK_THAT(refused("replay " + (folder.path() / "none").string()), Contains("none"));
  CHECK_THAT(refused("replay " + folder.write("text", std::string(100, 'x')).string()), Contains("is not a record of a run"));
  const std::string whole = read_file(file);
  CHECK_THAT(refused("replay " + folder.write("cut", whole.substr(0, whole.size() - 20)).string()),
             Contains("byte " + std::to_string(whole.size() - 20)) && Contains("whole up to step 3"));
  CHECK_THAT(refused("replay " + file + " --step 9"), Contains("--step 9") && Contains("steps 1 to 4"));
  CHECK_THAT(refused("replay " + file + " --at 1e6"), Contains("--at"));
  CHECK_THAT(refused("replay " + file + " --at 0 --json"), Contains("--json"));
  CHECK_THAT(refused(small_replay + "--record " + file + " --metrics " + file), Contains("--metrics"));
}

TEST_CASE("a run that is refused leaves an earlier record and earlier metrics as they were, and none where none was") {
  const TempFolder folder;
  const std::string record = folder.write("run.rec", "earlier record").string();
  const std::string metrics = folder.write("run.jsonl", "earlier metrics").string();
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string wrong = small_replay + "--pp 9 ";  // more stages than the model has blocks
  CHECK_THAT(refused(wrong + "--record " + record + " --metrics " + metrics), Contains("too few for 9 stages"));
  refused(wrong + "--record " + file("new.rec") + " --metrics " + file("new.jsonl"));
  CHECK(read_file(record) == "earlier record");
  CHECK(read_file(metrics) == "earlier metrics");
  CHECK_FALSE(fs::exists(file("new.rec")));
  CHECK_FALSE(fs::exists(file("new.jsonl")));

  const std::string no_folder = "--tensorboard " + metrics;  // found after the metrics were opened
  refused(small_replay + no_folder + " --metrics " + file("new.jsonl"));
  CHECK_FALSE(fs::exists(file("new.jsonl")));
  REQUIRE(run(small_replay + "--record " + record + " --metrics " + metrics).status == 0);
  CHECK(run("replay " + record).status == 0);
  CHECK_THAT(read_file(metrics), !Contains("earlier"));
}
