// pipetrain --schedule FILE: a plan from a file trains as the schedule from which it was written, and a wrong one is reported.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using nlohmann::json;
using pipetrain::read_file;
using pipetrain::Result;
using pipetrain::run;
using pipetrain::TempFolder;
namespace fs = std::filesystem;

namespace {

const std::string small_plan = "--device cpu --threads 1 --layers 2 --seq-len 16 --microbatch 2 ";

// Returns losses and norms of every step.
std::vector<std::pair<double, double>> losses(const fs::path& metrics) {
  std::vector<std::pair<double, double>> values;
  std::istringstream lines(read_file(metrics));
  for (std::string line; std::getline(lines, line);) {
    const json step = json::parse(line);
    values.emplace_back(step.at("loss"), step.at("grad_norm"));
  }
  return values;
}

struct Trained {
  std::vector<std::pair<double, double>> steps;
  std::string weights;
  bool operator==(const Trained&) const = default;
};

Trained train_plan(const std::string& arguments) {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), metrics = (folder.path() / "metrics").string();
  const Result result = run(small_plan + arguments + " --steps 3 --save " + save + " --metrics " + metrics);
  INFO(arguments << ": " << result.err);
  REQUIRE(result.status == 0);
  return {losses(metrics), read_file(save + "/model/model.safetensors")};
}

std::string wrong_plan(const std::string& arguments) { return pipetrain::refused(small_plan + arguments); }

using Catch::Matchers::Contains;

}  // namespace

TEST_CASE("a plan written by simulate trains to the bits of the schedule that it was written from") {
  for (const std::string schedule : {"1f1b", "interleaved", "zb-v"}) {
    const TempFolder folder;
    const std::string shape = " --pp 2 --microbatches 4";
    const Trained by_name = train_plan("--schedule " + schedule + shape);
    REQUIRE(by_name.steps.size() == 3);
    const std::string dry = run(small_plan + "--dry-run --schedule " + schedule + shape).out;
    for (const char* ending : {".txt", ".csv"}) {
      const std::string file = (folder.path() / (schedule + ending)).string();
      INFO(file);
      REQUIRE(run("simulate --schedule " + schedule + shape + " --plan-out " + file).status == 0);
      CHECK((train_plan("--schedule " + file) == by_name));  // pp, chunks and microbatches come from the plan
      CHECK(run(small_plan + "--dry-run --schedule " + file).out == dry);
      if (std::string(ending) == ".txt") CHECK((train_plan("--order ready --schedule " + file) == by_name));
    }
  }
}

TEST_CASE("a run resumes from a checkpoint with a plan from a file, to the bit") {
  const TempFolder folder;
  const std::string save = (folder.path() / "run").string(), file = folder
                                                                        .write("mine.txt",
                                                                               "microbatches: 4\n"
                                                                               "stage 0: F0 F1 F2 B0 F3 B1 B2 B3\n"
                                                                               "stage 1: F0 B0 F1 I1 F2 W1 B2 F3 B3\n")
                                                                        .string();
  const Trained whole = train_plan("--pp 1 --microbatches 4");
  CHECK((train_plan("--schedule " + file) == whole));
  const std::string resumed = small_plan + "--schedule " + file + " --resume --save " + save;
  // The learning rate depends on all steps, so the first part must be a stopped run of three.
  REQUIRE(run(small_plan + "--pp 1 --microbatches 4 --steps 3 --save-interval 2 --save " + save).status == 0);
  fs::remove_all(save + "/step-00000003");
  fs::remove_all(save + "/model");
  const Result rest = run(resumed + " --steps 3");
  INFO(rest.err);
  REQUIRE(rest.status == 0);
  CHECK_THAT(rest.err, Contains("resuming after step 2"));
  CHECK(read_file(save + "/model/model.safetensors") == whole.weights);
}

TEST_CASE("a plan from a file runs in its own order, and ends its step as it says") {
  const TempFolder folder;
  const auto order_of = [&](const std::string& plan, const std::string& more = "") {
    const std::string file = folder.write("plan.txt", plan).string(), trace = (folder.path() / "trace.json").string();
    const Result result = run(small_plan + more + "--steps 1 --schedule " + file + " --trace " + trace);
    INFO(result.err);
    REQUIRE(result.status == 0);
    std::vector<std::pair<double, std::string>> events;
    const json parsed = json::parse(read_file(trace));
    for (const auto& event : parsed["traceEvents"])
      if (event["ph"] == "X" && event["tid"] == 0) events.emplace_back(event["ts"], event["name"]);
    std::sort(events.begin(), events.end());
    std::string order;
    for (const auto& [time, name] : events) order += name + " ";
    return order;
  };
  CHECK(order_of("microbatches: 3\nstage 0: F0 F1 B0 F2 B1 B2\n") == "F0 F1 B0 F2 B1 B2 N O ");
  CHECK(order_of("microbatches: 2\nstage 0: F0 I0 F1 I1 W0 W1 N O\n") == "F0 I0 F1 I1 W0 W1 N O ");
  CHECK(order_of("microbatches: 2\nchunks: 2\nstage 0: 0F0 1F0 0F1 1F1 1B0 0B0 1B1 1R 0B1 0R N O\n", "--dp 2 ") ==
        "0F0 1F0 0F1 1F1 1B0 0B0 1B1 1R 0B1 0R N O ");
}

TEST_CASE("a plan file that is wrong, or does not go with the run, is one line and exit status 2") {
  const TempFolder folder;
  const auto plan = [&](const std::string& text) { return "--schedule " + folder.write("plan.txt", text).string(); };
  const std::string path = (folder.path() / "plan.txt").string(), head = "microbatches: 2\n";
  CHECK(wrong_plan(plan(head + "stage 0: F0 F1 B1 B0\n")) ==
        path + ":2: stage 0: B1 comes before B0; a chunk must keep the order of microbatches");
  CHECK_THAT(wrong_plan(plan(head + "stage 0: F0 Q1\n")), Contains(path + ":2: \"Q1\" is not an action"));
  CHECK_THAT(wrong_plan(plan(head + "stage 0: F0 X1\n")), Contains(path + ":2: stage 0: X1 is a custom action"));
  CHECK_THAT(wrong_plan(plan(head + "stage 0: F0 F1 B0\n")), Contains(path + ":2: stage 0: B1 is missing"));
  CHECK_THAT(wrong_plan("--schedule " + folder.write("plan.csv", "0F0,0F1,0B1,0B0\n").string()),
             Contains("plan.csv:1: stage 0: B1"));
  CHECK_THAT(wrong_plan("--schedule " + (folder.path() / "none.csv").string()), Contains("none.csv"));
  const std::string good = plan(head + "stage 0: F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n");
  CHECK(wrong_plan("--pp 3 " + good) == "--pp 3: the plan " + path + " has pp 2; give the same or leave it out");
  CHECK_THAT(wrong_plan("--microbatches 3 " + good), Contains("has microbatches 2"));
  CHECK_THAT(wrong_plan("--chunks 2 " + good), Contains("has chunks 1"));
  CHECK_THAT(wrong_plan("--global-batch 6 " + good), Contains("which is 2 x 2 x 1 = 4"));
  CHECK_THAT(wrong_plan("--order ready " + good), Contains("has no rule for what is ready"));
  CHECK_THAT(wrong_plan("--layers 0 " + good), Contains("must be at least 1"));
  const std::string ended = plan(head + "stage 0: F0 F1 B0 B1 N O\nstage 1: F0 B0 F1 B1 N O\n");
  CHECK_THAT(wrong_plan("--dp 2 " + ended), Contains(path + ": the plan has no R") && Contains("dp > 1"));
  CHECK_THAT(wrong_plan(plan(head + "stage 0: F0 F1 B0 B1 R N O\n")), Contains("the plan has R") && Contains("dp > 1"));
  CHECK_THAT(wrong_plan(plan(head + "stage 0: F0 F1 B0 B1 N\n")), Contains("the plan has no O"));
  CHECK_THAT(wrong_plan(plan(head + "stage 0: F0 F1 B0 B1 T N O\n")), Contains("the plan has T") && Contains("tied"));
  std::string many = "chunks: 5\nmicrobatches: 1\nstage 0:";
  for (int chunk = 0; chunk < 5; ++chunk) many += " " + std::to_string(chunk) + "F0";
  for (int chunk = 4; chunk >= 0; --chunk) many += " " + std::to_string(chunk) + "B0";
  CHECK_THAT(wrong_plan(plan(many + "\n")), Contains("too few for 5 stages"));
}
