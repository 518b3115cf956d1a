// Names of files that are not UTF-8, written to JSON, SVG and HTML, which must be.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/pipetrain_program.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "schedules/draw/utf8.hpp"

using namespace pipetrain;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

const std::string name = "na\xefve";  // Latin 1

bool is_utf8(const std::string& text) { return schedules::valid_utf8(text) == text; }

}  // namespace

TEST_CASE("models and plans whose names are not UTF-8 are trained, traced and profiled") {
  const TempFolder folder;
  const std::string at = folder.path().string() + "/", model = at + name, plan = at + name + ".txt";
  const std::string small = "--device cpu --seq-len 8 ";
  REQUIRE(run(small + "--layers 2 --steps 1 --microbatches 2 --save " + at + "run").status == 0);
  fs::rename(at + "run/model", model);
  REQUIRE(run("simulate --pp 2 --microbatches 2 --plan-out " + at + "plan.txt").status == 0);
  std::string text = read_file(at + "plan.txt");
  if (const auto found = text.find("1f1b"); found != std::string::npos) text.replace(found, 4, name);
  folder.write(name + ".txt", text);

  const std::string train = small + "--steps 1 --model " + model + " --schedule " + plan + " --save " + at + name + "-run";
  const Result trained = run(train + " --trace " + at + "t.json --profile " + at + "p.json --metrics " + at + name + ".jsonl");
  INFO(trained.err);
  CHECK(trained.status == 0);
  CHECK(nlohmann::json::parse(read_file(at + "p.json"))["model"] == at + "na\xef\xbf\xbdve");
  CHECK(nlohmann::json::accept(read_file(at + "t.json")));
  CHECK(run(train + " --resume --trace " + at + "t.html").status == 0);
  CHECK(is_utf8(read_file(at + "t.html")));

  const std::string simulate = "simulate --schedule " + plan;
  const Result simulated = run(simulate + " --json --svg " + at + "s.svg --html " + at + "s.html --trace " + at + "s.json");
  INFO(simulated.err);
  CHECK(simulated.status == 0);
  CHECK(nlohmann::json::accept(simulated.out));
  CHECK(nlohmann::json::accept(read_file(at + "s.json")));
  CHECK_THAT(read_file(at + "s.svg"), Contains("na\xef\xbf\xbdve"));
  CHECK(is_utf8(read_file(at + "s.svg")));
  CHECK(is_utf8(read_file(at + "s.html")));
  CHECK(run("simulate --pp 2 --costs " + at + "p.json").status == 0);
}

TEST_CASE("a command that tune gives for a name that is not UTF-8 runs as printed") {
  const TempFolder folder;
  const std::string model = folder.path().string() + "/" + name;
  REQUIRE(run("--device cpu --seq-len 8 --layers 2 --steps 1 --save " + folder.path().string() + "/run").status == 0);
  fs::rename(folder.path() / "run/model", model);
  const Result tuned = run("tune --devices 1 --device cpu --global-batch 1 --json --model " + model);
  INFO(tuned.err);
  REQUIRE(tuned.status == 0);
  const std::string command = nlohmann::json::parse(tuned.out)[0]["command"];
  CHECK_THAT(command, Contains("$'") && Contains("na\\xefve"));
  const auto script = folder.write("run.sh", "pipetrain() { '" + program_path() + "' \"$@\"; }\n" + command + " --dry-run\n");
  CHECK(run_program("/bin/bash", script.string()).status == 0);
}

TEST_CASE("bytes that belong to no character are replaced one by one") {
  CHECK(schedules::valid_utf8("naïve 数 😀") == "naïve 数 😀");
  CHECK(schedules::valid_utf8("a\xff\xc3") == "a\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(schedules::valid_utf8("\xed\xa0\x80") == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(schedules::valid_utf8("") == "");
}
