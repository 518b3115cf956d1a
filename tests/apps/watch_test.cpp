// `pipetrain watch` as people and scripts see it.
#include "apps/watch/watch.hpp"

#include <algorithm>
#include <string>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "catch.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

StepMetrics step(std::int64_t number, double loss) {
  StepMetrics metrics;
  metrics.step = number;
  metrics.loss = loss;
  metrics.grad_norm = 1;
  metrics.lr = 3e-4;
  metrics.tokens = 64;
  metrics.seconds = 0.5;
  metrics.tokens_per_second = 128;
  metrics.bubble = 0.25;
  metrics.memory_bytes = {std::int64_t{1} << 30, std::int64_t{2} << 30, std::int64_t{3} << 30, std::int64_t{3} << 30};
  metrics.stage_bubble = {0.4, 0.1};
  return metrics;
}

std::string metrics_lines(int first, int last) {
  std::string text;
  for (int number = first; number <= last; ++number) text += to_json_line(step(number, 1.0 / number)) + "\n";
  return text;
}

std::size_t columns_of(const std::string& line) {  // characters, not bytes
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("watch fits every window, and shows which stage waits") {
  std::vector<StepMetrics> steps;
  for (int number = 1; number <= 300; ++number) steps.push_back(step(number, 4 - 0.01 * number));
  for (const int columns : {1, 10, 40, 59, 80, 200}) {
    for (const int rows : {1, 3, 8, 24, 60}) {
      for (const Glyphs glyphs : {Glyphs::braille, Glyphs::ascii}) {
        const auto shown = watch_lines({steps}, {columns, rows, glyphs, false});
        INFO(columns << " x " << rows << "\n" << joined(shown));
        CHECK(!shown.empty());
        CHECK(static_cast<int>(shown.size()) <= std::max(rows - 1, 1));
        for (const auto& line : shown) CHECK(columns_of(line) <= static_cast<std::size_t>(columns));
      }
    }
  }
  const std::string text = joined(watch_lines({steps}, {100, 24, Glyphs::ascii, false}));
  CHECK_THAT(
      text,
      StartsWith(
          "step 300   loss 1.0000   grad norm 1.000   lr 3.00e-04\nrunning   elapsed 0:00\n128 tokens/s   0.5 s a step   bubble 25.0 %\n"));
  CHECK_THAT(text, Contains("    3.99 *") && Contains("step 300\n"));
  CHECK_THAT(text, Contains("waits  40.0 %   2.0 GiB\n") && Contains("waits  10.0 %   3.0 GiB   busiest\n"));
  CHECK_THAT(joined(watch_lines({.steps = steps, .quiet_seconds = 90}, {100, 24, Glyphs::ascii, false})),
             Contains("\nno new step for 1:30"));
}

TEST_CASE("watch shows the whole length, the time left, evaluations and, in a narrow window, the stages") {
  WatchedRun run;
  for (int number = 1; number <= 30; ++number) {
    run.steps.push_back(step(number, 4 - 0.1 * number));
    run.steps.back().elapsed = 0.5 * number;
    run.steps.back().total_steps = 100;
  }
  run.evaluations = {{.step = 10, .eval_loss = 3.5}, {.step = 20, .eval_loss = 3.6}};
  const std::string text = joined(watch_lines(run, {100, 24, Glyphs::ascii, false}));
  CHECK_THAT(text, StartsWith("step 30 of 100   loss 1.0000") && Contains("\nrunning   ETA 0:35   elapsed 0:15\n"));
  CHECK_THAT(text, Contains("\no evaluation 3.6000 at step 20   best 3.5000 at step 10\n"));
  CHECK(std::count(text.begin(), text.end(), 'o') > 6);  // its marks on the curve, besides the words'
  CHECK_THAT(joined(watch_lines(run, {39, 24, Glyphs::ascii, false})),
             Contains("stage 0   waits  40.0 %   2.0 GiB\n") && Contains("stage 1   waits  10.0 %   3.0 GiB\n"));
}

TEST_CASE("watch says how a run ended") {
  WatchedRun run{.steps = {step(7, 1)}};
  run.steps.back().total_steps = 9;
  const auto state = [&] { return watch_lines(run, {100, 24, Glyphs::ascii, false})[1]; };
  CHECK_THAT(state(), StartsWith("running"));
  run.has_writer = false;
  CHECK_THAT(state(), StartsWith("ended   elapsed"));
  run.failure = FailureNote{8, "rank 3 is out of memory"};
  CHECK(state() == "failed in step 8: rank 3 is out of memory");
  run.failure.reset();
  run.steps.back().step = 9;
  CHECK_THAT(state(), StartsWith("finished   elapsed"));
}

TEST_CASE("watch shows the cause of a failed run, until the run is resumed") {
  const TempFolder folder;
  const std::string file = (folder.path() / "m.jsonl").string(), save = (folder.path() / "run").string();
  const std::string options =
      "--device cpu --pp 2 --layers 2 --seq-len 16 --microbatches 2 --steps 4 --save-interval 1 --save " + save +
      " --metrics " + file;
  const Result failed = run(options, "PIPETRAIN_FAULT=1:3:throw");
  CHECK(failed.status == 1);
  const std::string cause = failed.err.substr(failed.err.rfind("pipetrain: error: ") + 18);
  CHECK_THAT(run("watch --once " + file, "LC_ALL=C").out, Contains("step 2 of 4") && Contains("\nfailed in step 3: "));
  CHECK_THAT(run("watch --once " + file, "LC_ALL=C").out, Contains(cause.substr(0, cause.find(','))));
  CHECK(run(options + " --resume").status == 0);
  CHECK_THAT(run("watch --once " + file, "LC_ALL=C").out, Contains("step 4 of 4") && Contains("\nfinished"));
}

TEST_CASE("watch shows since when a run is in another membership") {
  std::vector<StepMetrics> steps;
  for (int number = 1; number <= 9; ++number) {
    steps.push_back(step(number, 1));
    steps.back().membership = number < 6 ? 1 : 2;
    steps.back().takeovers = number < 6 ? 0 : 1;
  }
  CHECK_THAT(joined(watch_lines({steps}, {80, 24, Glyphs::ascii, false})), Contains("membership 2 since step 6"));
  steps.resize(5);
  CHECK_THAT(joined(watch_lines({steps}, {80, 24, Glyphs::ascii, false})), !Contains("membership"));
}

TEST_CASE("watch shows a file once, or a folder's only one, and refuses what it cannot") {
  const TempFolder folder;
  const std::string file = folder.write("run/m.jsonl", metrics_lines(1, 40)).string(),
                    empty = folder.write("empty", "").string();
  const Result once = run("watch --once " + file, "LC_ALL=C");
  CHECK(once.status == 0);
  CHECK_THAT(once.out, StartsWith("step 40   loss 0.0250") && Contains("*") && !Contains("\x1b"));
  CHECK_THAT(run("watch --once " + (folder.path() / "run").string(), "LC_ALL=C.UTF-8").out,
             Contains("\xe2\xa0") && Contains("\u2588"));
  CHECK_THAT(refused("watch"), Contains("takes one file or folder"));
  CHECK_THAT(refused("watch " + file + " " + file), Contains("takes one file or folder"));
  CHECK_THAT(refused("watch /nowhere"), Contains("/nowhere: there is no such file"));
  CHECK_THAT(refused("watch --once " + empty), Contains("no step is done yet"));
  CHECK_THAT(refused("watch --interval 0 " + file), Contains("--interval 0"));
}

TEST_CASE("watch follows the file, in plain lines without a terminal, until Ctrl-C") {
  const TempFolder folder;
  const std::string file = folder.write("m", metrics_lines(1, 12)).string(), out = (folder.path() / "out").string();
  LiveRun watch("watch --interval 0.01 " + file, "", out);
  const auto seen = [&](const char* text) { return [&, text] { return read_file(out).find(text) != std::string::npos; }; };
  watch.wait_until(seen("step 12  loss 0.0833"));
  CHECK_THAT(read_file(out), StartsWith("step 3  loss"));
  folder.write("m", metrics_lines(1, 13));
  watch.wait_until(seen("step 13  loss 0.0769"));
  CHECK(watch.end_by(SIGINT) == 130);
}
