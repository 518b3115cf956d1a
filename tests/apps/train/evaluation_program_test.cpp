// Evaluation as a user sees it: lines of metrics, results, and refused options.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using nlohmann::json;

namespace {

const std::string small_evaluation = "--device cpu --seq-len 8 --layers 1 --microbatches 2 ";

struct Lines {
  std::vector<json> steps, evaluations;
};

Lines evaluation_lines(const std::filesystem::path& file) {
  Lines lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    json members = json::parse(line);
    (members.contains("loss") ? lines.steps : lines.evaluations).push_back(std::move(members));
  }
  return lines;
}

Lines trained_lines(const std::string& arguments) {
  const TempFolder folder;
  const auto file = folder.path() / "m.jsonl";
  const Result result = run(small_evaluation + arguments + " --metrics " + file.string());
  INFO(result.err);
  REQUIRE(result.status == 0);
  return evaluation_lines(file);
}

}  // namespace

TEST_CASE("a run evaluates at its interval and at its end, and reports it in all outputs") {
  const TempFolder folder;
  const auto at = [&](const char* name) { return (folder.path() / name).string(); };
  const Result result = run(small_evaluation + "--pp 2 --steps 5 --split 0.01 --eval-interval 2 --save " + at("run") +
                            " --metrics " + at("m.jsonl") + " --report " + at("run.html") + " --tensorboard " + at("logs"));
  INFO(result.err);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.out, Contains(", evaluation "));
  CHECK_THAT(result.err, Contains("step 2: evaluation loss ") && Contains("perplexity") && Contains("samples in "));
  const Lines lines = evaluation_lines(at("m.jsonl"));
  REQUIRE(lines.evaluations.size() == 3);
  CHECK(lines.evaluations[0]["step"] == 2);
  CHECK(lines.evaluations[1]["step"] == 4);
  CHECK(lines.evaluations[2]["step"] == 5);
  for (const json& line : lines.evaluations) {
    CHECK(line.size() == 12);
    CHECK(line["perplexity"].get<double>() == Approx(std::exp(line["eval_loss"].get<double>())));
    CHECK((line["accuracy"].is_null() && line["f1"].is_null()));
  }
  const json results = json::parse(std::ifstream(at("run/results.json")));
  CHECK(results["steps"] == 5);
  CHECK(results["eval_step"] == 5);
  CHECK(results["eval_loss"] == lines.evaluations[2]["eval_loss"]);
  CHECK(results["loss"] == lines.steps[4]["loss"]);
  CHECK_THAT(read_file(at("run.html")), Contains("evaluation loss") && Contains("perplexity"));
}

TEST_CASE("without an interval a run evaluates after each epoch") {
  const TempFolder folder;
  const std::string text = folder.write("train.txt", std::string(64, 'a') + "b").string();  // 8 samples
  const Lines lines = trained_lines("--data " + text + " --eval-data " + text + " --epochs 3");
  CHECK(lines.steps.size() == 12);
  REQUIRE(lines.evaluations.size() == 3);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) CHECK(lines.evaluations[epoch]["step"] == 4 * (epoch + 1));
}

TEST_CASE("evaluating changes no bit of the training, and what is kept for it is trained on no more") {
  const TempFolder folder;
  const std::string text = folder.write("eval.txt", std::string(40, 'x')).string();
  const auto losses = [](const Lines& lines) {
    std::vector<double> values;
    for (const json& line : lines.steps) values.push_back(line["loss"]);
    return values;
  };
  const std::vector<double> plain = losses(trained_lines("--steps 3"));
  CHECK(losses(trained_lines("--steps 3 --eval-interval 1 --eval-data " + text)) == plain);
  CHECK(losses(trained_lines("--steps 3 --split 0.5")) != plain);
  CHECK(losses(trained_lines("--steps 3 --split 0")) == plain);
}

TEST_CASE("a resumed run has every evaluation once") {
  const TempFolder folder;
  const std::string metrics = (folder.path() / "m.jsonl").string();
  const std::string command = small_evaluation + "--split 0.01 --eval-interval 2 --lr-schedule constant --save " +
                              (folder.path() / "run").string() + " --metrics " + metrics;
  REQUIRE(run(command + " --steps 4 --save-interval 2").status == 0);
  std::filesystem::remove_all(folder.path() / "run" / "step-00000004");
  REQUIRE(run(command + " --steps 6 --resume").status == 0);
  const Lines lines = evaluation_lines(metrics);
  CHECK(lines.steps.size() == 6);
  REQUIRE(lines.evaluations.size() == 3);
  CHECK(lines.evaluations[1]["step"] == 4);
}

TEST_CASE("impossible evaluations are refused") {
  CHECK_THAT(refused("--eval-interval 5"), StartsWith("--eval-interval 5: needs data to evaluate on"));
  CHECK_THAT(refused("--eval-data nothing.txt"), StartsWith("--eval-data nothing.txt: there is no such file or folder"));
  CHECK_THAT(refused("--eval-data nothing.txt:x"), StartsWith("--eval-data nothing.txt:x: there is no such file"));
  CHECK_THAT(refused("--split 1"), StartsWith("--split 1: "));
  CHECK_THAT(refused("--split -0.1"), StartsWith("--split -0.1: "));
  const TempFolder folder;
  const std::string text = folder.write("a.txt", std::string(2000, 'a')).string();
  CHECK_THAT(refused("--split 0.1 --eval-data " + text), StartsWith("--split 0.1: --eval-data is given too"));
  CHECK_THAT(refused("--split 0.1 --data " + text + ":2"), StartsWith("--split 0.1: a weighted mixture draws anew"));
  CHECK_THAT(refused("--eval-data " + text + " --metrics " + text), Contains("--eval-data reads there too"));
  const std::string one = folder.write("one.jsonl", "{\"input_ids\": [1, 2, 3]}\n").string();
  CHECK_THAT(refused("--split 0.5 --data " + one + " --microbatches 1"), StartsWith("--split 0.5: the data has one sample"));
  CHECK_THAT(refused("--seq-len 1 --eval-data " + one), Contains("one.jsonl:1"));
}
