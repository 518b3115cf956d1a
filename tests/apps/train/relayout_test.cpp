// Live runs whose layout `pipetrain relayout` changes between two steps.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "records/metrics_line.hpp"
#include "temp_folder.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::string relayout_options =
    " --device cpu --threads 1 --pp 2 --layers 4 --seq-len 8 --microbatches 4 --steps 250 --log-interval 1000000";

// A run in the background.
class RelayoutRun {
 public:
  explicit RelayoutRun(const std::string& command, const std::string& variable = "PIPETRAIN_TEST_NONE=1")
      : run_(words(command), {mark_.variable(), variable}, folder_.path() / "err") {}

  std::string save() const { return (folder_.path() / "run").string(); }
  const bench::ProcessMark& mark() const { return mark_; }
  std::string err() const { return run_.err(); }
  void wait_for_steps(std::ptrdiff_t steps) {
    const bool came = test::wait_until([&] {
      const std::string text = bench::text_of(folder_.path() / "metrics");
      return std::count(text.begin(), text.end(), '\n') >= steps;
    });
    INFO(err());
    REQUIRE(came);
  }
  std::optional<int> wait() { return run_.wait(std::chrono::seconds(60)); }
  std::string weights() const { return bench::text_of(folder_.path() / "run" / "model" / "model.safetensors"); }
  std::vector<StepMetrics> steps() const {
    std::vector<StepMetrics> steps;
    std::istringstream lines(bench::text_of(folder_.path() / "metrics"));
    for (std::string line; std::getline(lines, line);)
      if (const auto metrics = parse_metrics_line(line, "metrics")) steps.push_back(*metrics);
    return steps;
  }

 private:
  std::vector<std::string> words(const std::string& command) const {
    std::istringstream in(command + relayout_options + " --save " + save() + " --metrics " +
                          (folder_.path() / "metrics").string());
    std::vector<std::string> words{program_path()};
    for (std::string word; in >> word;) words.push_back(word);
    return words;
  }

  TempFolder folder_;
  bench::ProcessMark mark_;
  bench::ProgramRun run_;
};

// Ends both, and checks that they have the same losses, norms and weights.
void check_equal_runs(RelayoutRun& changed, RelayoutRun& whole) {
  REQUIRE(whole.wait() == 0);
  const auto status = changed.wait();
  INFO(changed.err());
  REQUIRE(status == 0);
  CHECK(changed.weights() == whole.weights());
  const auto steps = changed.steps(), expected = whole.steps();
  REQUIRE(steps.size() == expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].loss == expected[i].loss);
    CHECK(steps[i].grad_norm == expected[i].grad_norm);
  }
}

Result ask(const RelayoutRun& run, const std::string& options) {
  return pipetrain::run("relayout " + run.save() + " " + options);
}

}  // namespace

TEST_CASE("a run whose layout changes between steps has the bits of one that keeps its layout", "[relayout]") {
  RelayoutRun whole("train"), changed("train");
  changed.wait_for_steps(20);
  const Result wider = ask(changed, "--pp 4 --schedule zb-h1");
  CHECK(wider.status == 0);
  CHECK_THAT(wider.out, StartsWith("relayout: after step "));
  CHECK_THAT(wider.out, Contains("pp 2 dp 1, 1f1b -> pp 4 dp 1, zb-h1 (simulated step "));
  CHECK_THAT(wider.out, Contains("the bits stay those of the unchanged run"));
  CHECK(ask(changed, "--pp 1 --schedule 1f1b --recompute full").status == 0);
  CHECK(ask(changed, "--pp 2 --schedule zb-v --recompute none").status == 0);
  CHECK(ask(changed, "--schedule 1f1b --cut 3,5").status == 0);
  check_equal_runs(changed, whole);
  CHECK(changed.steps().back().membership == 5);
  CHECK(changed.steps().back().takeovers == 0);
}

TEST_CASE("a run of several processes changes its layout", "[relayout][launch]") {
  const std::string elastic = GENERATE("", " --elastic takeover");
  RelayoutRun whole("train"), changed("launch --nproc 2" + elastic);
  changed.wait_for_steps(20);
  CHECK(ask(changed, "--pp 4 --schedule zb-h1").status == 0);
  CHECK(ask(changed, "--pp 2 --schedule zb-v").status == 0);
  check_equal_runs(changed, whole);
}

TEST_CASE("a run that changes its layout and loses and gives back processes ends with equal bits", "[relayout][launch]") {
  RelayoutRun whole("train"), changed("launch --nproc 3 --elastic takeover --spares 1");
  changed.wait_for_steps(20);
  CHECK(ask(changed, "--pp 4 --schedule zb-h1").status == 0);
  REQUIRE(changed.mark().signal(1, SIGKILL));
  changed.wait_for_steps(80);
  CHECK(ask(changed, "--pp 2 --schedule zb-v").status == 0);
  REQUIRE(changed.mark().signal(0, SIGUSR2));
  CHECK(test::wait_until([&] { return changed.mark().processes(0).empty(); }));
  changed.wait_for_steps(140);
  CHECK(ask(changed, "--pp 1 --schedule 1f1b").status == 0);
  check_equal_runs(changed, whole);
}

TEST_CASE("runs that change layouts and lose processes at seeded moments end with equal bits", "[relayout][launch][slow]") {
  RelayoutRun whole("train");
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    RelayoutRun changed("launch --nproc 4 --elastic takeover --spares 2");
    std::vector<int> processes{0, 1, 2, 3};
    std::string events = "seed " + std::to_string(seed) + ":";
    for (int steps = 15; steps < 230; steps += 30) {
      changed.wait_for_steps(steps);
      if (random() % 2 == 0 || processes.size() == 2) {
        const char* layouts[] = {"--pp 4 --schedule 1f1b", "--pp 2 --schedule zb-v", "--pp 4 --schedule zb-h1",
                                 "--pp 2 --schedule 1f1b"};
        const std::string layout = layouts[random() % 4];
        events += " relayout " + layout + ";";
        INFO(events);
        CHECK(ask(changed, layout).status == 0);
      } else {
        const auto at = static_cast<std::ptrdiff_t>(random() % processes.size());
        const int signal = random() % 2 == 0 ? SIGKILL : SIGUSR2;
        const int process = processes[static_cast<std::size_t>(at)];
        processes.erase(processes.begin() + at);
        events += " signal " + std::to_string(signal) + " to process " + std::to_string(process) + ";";
        changed.mark().signal(process, signal);
      }
    }
    INFO(events);
    check_equal_runs(changed, whole);
  }
}

TEST_CASE("the page of a run that ends while its layout changes says that it failed", "[relayout][launch]") {
  for (const int delay : {0, 10, 30, 60, 100}) {
    INFO(delay << " ms after the request");
    const TempFolder pages;
    const auto page = pages.path() / "report.html";
    RelayoutRun lost("launch --nproc 2 --report " + page.string());
    lost.wait_for_steps(10);
    auto asked = std::async(std::launch::async, [&] { return ask(lost, "--pp 4 --timeout 2"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(delay));
    REQUIRE(lost.mark().signal(1, SIGKILL));
    const auto status = lost.wait();
    INFO(lost.err());
    REQUIRE(status);
    CHECK(*status != 0);
    CHECK_THAT(bench::text_of(page), Contains("\"state\":\"failed\""));
    asked.wait();
  }
}

TEST_CASE("a layout that is wrong is refused in one line and the run goes on", "[relayout]") {
  RelayoutRun whole("train"), asked("train");
  asked.wait_for_steps(10);
  const std::string relayout = "relayout " + asked.save() + " ";
  CHECK_THAT(refused(relayout + "--pp 64"), Contains("are too few for 64 stages"));
  CHECK_THAT(refused(relayout + "--cut 1,2"), Contains("must add up to the model's 8 attention and MLP blocks"));
  CHECK_THAT(refused(relayout + "--dp 2"), Contains("the global batch would be 8 instead of 4; give --microbatches too"));
  CHECK_THAT(refused(relayout + "--schedule 2f2b"), Contains("2f2b"));
  CHECK_THAT(refused(relayout), Contains("no layout is given"));
  CHECK_THAT(refused("relayout " + asked.save() + "/none --pp 4"), Contains("no run saves in"));
  check_equal_runs(asked, whole);
  CHECK_THAT(refused(relayout + "--pp 4"), Contains("no run saves in"));
}

TEST_CASE("a run with a slow stage changes its layout by itself and keeps its bits", "[relayout]") {
  RelayoutRun whole("train"), retuned("train --retune 20", "PIPETRAIN_FAULT=1:5:slow");
  check_equal_runs(retuned, whole);
  CHECK_THAT(retuned.err(), Contains("retuned to "));
}

TEST_CASE("a run that changes its layout by itself needs a folder for its checkpoint", "[relayout]") {
  CHECK_THAT(refused("train --retune 20"), Contains("needs --save DIR"));
}
