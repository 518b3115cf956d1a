// Elastic runs, started as users start them, that lose processes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "apps/live_run.hpp"
#include "apps/pipetrain_program.hpp"
#include "bench/faults/hosts.hpp"
#include "bench/faults/seeded_takeover.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "skip.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

TEST_CASE("a run that loses a process in each of six ways ends as an undisturbed one", "[launch][takeover]") {
  const TempFolder folder;
  bench::SeededTakeovers takeovers(program_path(), folder.path());
  for (std::uint64_t seed = 0; seed < bench::takeover_faults; ++seed) {
    const bench::TakeoverOutcome outcome = takeovers.run(seed);
    INFO(outcome.what << ": " << outcome.problem);
    CHECK(outcome.problem.empty());
    CHECK((outcome.took_over || outcome.started_again));
  }
}

TEST_CASE("the record of a run that loses a process replays in all of its memberships, and gives its order",
          "[launch][takeover]") {
  const TempFolder folder;
  const auto file = [&](const std::string& name) { return (folder.path() / name).string(); };
  const std::string layout = "--device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 4 --steps 6 --pp 4 ";
  REQUIRE(run(layout + "--metrics " + file("expected")).status == 0);
  const auto [fault, membership] = GENERATE(table<std::string, std::string>(
      {{"3:3:exit", "process 0 has stage 0, stage 1; process 1 has stage 2, stage 3"},
       {"0:3:exit", "process 0 has stage 0, stage 2; process 1 has stage 1, stage 3"},
       {"3:4:exit-in-update", "process 0 has stage 0, stage 1; process 1 has stage 2, stage 3"}}));
  INFO(fault);
  const Result lost =
      run("launch --nproc 3 --elastic takeover " + layout + "--metrics " + file("metrics") + " --record " + file("run.rec"),
          "PIPETRAIN_FAULT=" + fault);
  INFO(lost.err);
  REQUIRE(lost.status == 0);
  CHECK(run("compare " + file("expected") + " " + file("metrics")).status == 0);
  const Result replayed = run("replay " + file("run.rec"));
  INFO(replayed.out << replayed.err);
  REQUIRE(replayed.status == 0);
  CHECK_THAT(replayed.out, Catch::Contains("all decided as recorded\n") && Catch::Contains("membership 2, from step "));
  CHECK(run("replay " + file("run.rec") + " --step 1 --svg " + file("first.svg")).status == 0);
  CHECK(run("replay " + file("run.rec") + " --step 6 --json").status == 0);
  CHECK(run(layout + "--order replay:" + file("run.rec") + " --metrics " + file("again")).status == 0);
  CHECK(run("compare " + file("expected") + " " + file("again")).status == 0);
  CHECK_THAT(replayed.out, Catch::Contains(membership));
}

TEST_CASE("fifty runs that lose processes at seeded moments end as undisturbed ones", "[launch][takeover][slow]") {
  const TempFolder folder;
  bench::SeededTakeovers takeovers(program_path(), folder.path());
  int took_over = 0;
  for (std::uint64_t seed = 100; seed < 150; ++seed) {
    const bench::TakeoverOutcome outcome = takeovers.run(seed);
    INFO(outcome.what << ": " << outcome.problem);
    CHECK(outcome.problem.empty());
    took_over += outcome.took_over ? 1 : 0;
  }
  CHECK(took_over > 25);
}

TEST_CASE("of a divided network the side with most processes goes on, and the other one ends",
          "[launch][takeover][slow][alone]") {
  const bench::Hosts hosts(3);
  if (!hosts.made()) return test::skip("needs root and ip netns");
  const std::string small =
      "--device cpu --threads 1 --seq-len 8 --layers 4 --microbatches 2 --dp 3 --zero 1 --steps 120 --log-interval 100000 ";
  const TempFolder undisturbed;
  CHECK(run("launch --nproc 3 " + small + "--save '" + undisturbed.path().string() + "'").status == 0);
  const int cut_off = GENERATE(0, 2);
  INFO("host " << cut_off);
  const TempFolder folder;
  const auto metrics = folder.path() / "metrics.jsonl";
  std::vector<std::unique_ptr<LiveRun>> runs;
  for (int host = 0; host < 3; ++host) {
    const std::string place =
        "launch --nproc 1 --nnodes 3 --node-rank " + std::to_string(host) + " --master " + hosts.address(0) + ":29500 ";
    runs.push_back(std::make_unique<LiveRun>(LiveRun::Launcher{"ip netns exec " + hosts.name(host)},
                                             place + small + "--elastic takeover --metrics '" + metrics.string() +
                                                 "' --save '" + (folder.path() / "run").string() + "'",
                                             "PIPETRAIN_TOKEN=0123456789abcdef0123456789abcdef"));
  }
  runs.front()->wait_until([&] {
    const std::string lines = read_file(metrics);
    return std::count(lines.begin(), lines.end(), '\n') >= 20;
  });
  hosts.link(cut_off, false);
  for (int host = 0; host < 3; ++host) {
    INFO("host " << host << ": " << runs[static_cast<std::size_t>(host)]->err());
    CHECK((runs[static_cast<std::size_t>(host)]->wait() == 0) == (host != cut_off));
  }
  const std::string model = "model/model.safetensors";
  CHECK(read_file(folder.path() / "run" / model) == read_file(undisturbed.path() / model));
}

TEST_CASE("a dry run states the memory and the traffic of copies", "[launch][takeover]") {
  const std::string small = "launch --nproc 2 --device cpu --seq-len 8 --layers 4 --dry-run ";
  const Result alone = run(small + "--dp 2 --elastic takeover");
  CHECK(alone.status == 0);
  CHECK_THAT(alone.out, Catch::Matchers::Contains("host memory for copies of states: "));
  CHECK_THAT(alone.out, !Catch::Matchers::Contains("to its buddy"));
  const Result passed = run(small + "--pp 2 --elastic takeover");
  CHECK_THAT(passed.out, Catch::Matchers::Contains("MiB on to its buddy after each step"));
  CHECK_THAT(run(small + "--pp 2").out, !Catch::Matchers::Contains("copies of states"));
}
