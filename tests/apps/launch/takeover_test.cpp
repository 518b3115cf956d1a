// Elastic runs, started as users start them, that lose processes.
#include <string>

#include "apps/pipetrain_program.hpp"
#include "bench/faults/seeded_takeover.hpp"
#include "catch.hpp"
#include "paths.hpp"
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
