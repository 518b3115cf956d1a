// Processes of an elastic run that leave it on purpose, because a signal asks them to.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/marked_processes.hpp"
#include "bench/faults/program_run.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

constexpr const char* left_layout =
    " --device cpu --threads 1 --pp 3 --layers 3 --seq-len 8 --microbatches 2 --steps 150 --log-interval 1000000 --save ";

std::vector<std::string> launch_leaving(const TempFolder& folder) {
  std::vector<std::string> words{program_path()};
  const std::string options = "launch --nproc 3 --elastic takeover --metrics " + (folder.path() / "metrics").string() +
                              left_layout + (folder.path() / "left").string();
  for (std::size_t begin = 0; begin < options.size();) {
    const std::size_t end = std::min(options.find(' ', begin), options.size());
    if (end > begin) words.push_back(options.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Returns true once the run has done this many steps.
bool reached(const TempFolder& folder, std::ptrdiff_t steps) {
  const std::string text = bench::text_of(folder.path() / "metrics");
  return std::count(text.begin(), text.end(), '\n') >= steps;
}

std::string weights_of(const std::filesystem::path& save) { return bench::text_of(save / "model" / "model.safetensors"); }

}  // namespace

TEST_CASE("processes that get SIGUSR2 hand over their ranks and the run goes on with equal bits", "[launch][leave]") {
  const int second = GENERATE(0, 2);  // leaves after process 1
  const TempFolder folder;
  REQUIRE(run("train" + std::string(left_layout) + (folder.path() / "alone").string()).status == 0);
  const bench::ProcessMark mark;
  bench::ProgramRun program(launch_leaving(folder), {mark.variable()}, folder.path() / "err");
  REQUIRE(test::wait_until([&] { return reached(folder, 20); }));
  REQUIRE(mark.signal(1, SIGUSR2));
  CHECK(test::wait_until([&] { return mark.processes(1).empty(); }));
  REQUIRE(mark.signal(second, SIGUSR2));
  const auto status = program.wait(std::chrono::seconds(60));
  INFO(program.err());
  CHECK(status == 0);
  CHECK_THAT(program.err(), Contains("handed over: process 1 has left on purpose; rank 1 now runs in process"));
  CHECK_THAT(program.err(), Contains("handed over: process " + std::to_string(second) + " has left on purpose"));
  CHECK_THAT(program.err(), !Contains("takeover: "));
  CHECK(weights_of(folder.path() / "left") == weights_of(folder.path() / "alone"));
}

TEST_CASE("a run that cannot hand over ranks saves and ends when it gets SIGUSR2", "[leave]") {
  const TempFolder folder;
  LiveRun program("--device cpu --layers 2 --seq-len 8 --steps 100000 --log-interval 1000000 --save " +
                  (folder.path() / "run").string() + " --metrics " + (folder.path() / "metrics").string());
  program.wait_until([&] { return reached(folder, 3); });
  CHECK(program.end_by(SIGUSR2) == 128 + SIGUSR2);
  CHECK_THAT(program.err(), Contains("stopped by SIGUSR2 after step"));
  CHECK(!std::filesystem::is_empty(folder.path() / "run"));
}
