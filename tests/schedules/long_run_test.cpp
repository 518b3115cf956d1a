#include "schedules/simulate/long_run.hpp"

#include <cmath>

#include "catch.hpp"

namespace pipetrain::schedules {
namespace {

constexpr double hour = 3600, day = 86400;

// 2,048 hosts, one of which fails every 3.1 hours.
LongRun large_run() {
  LongRun run;
  run.length = 30 * day;
  run.hosts = 2048;
  run.host_rate = 3.79 / (1000 * day);
  run.repair = 24 * hour;
  run.step = 10;
  run.save_stall = 5;
  run.restart = 600;
  run.takeover = 10;
  run.slowdowns = {1.5};
  run.save_every = best_save_interval(run);
  return run;
}

double sum_of(const LongRunResult& result) {
  return result.goodput + result.repeated + result.down + result.slowed + result.saving;
}

LongRunResult mean_of(LongRun run, int runs) {
  LongRunResult mean;
  for (int i = 0; i < runs; ++i, ++run.seed) {
    const LongRunResult one = simulate_long_run(run);
    mean.goodput += one.goodput / runs, mean.repeated += one.repeated / runs, mean.down += one.down / runs;
    mean.failures += one.failures, mean.restarts += one.restarts;
  }
  return mean;
}

}  // namespace

TEST_CASE("a long run without failures loses its checkpoints' stalls alone", "[long-run]") {
  LongRun run;
  run.length = 1000;
  run.step = 1;
  run.save_every = 95;
  run.save_stall = 5;
  const LongRunResult result = simulate_long_run(run);
  CHECK(result.failures == 0);
  CHECK(result.saving == Approx(0.05));
  CHECK(result.goodput == Approx(0.95));
  CHECK(best_save_interval(run) == 1000);
}

TEST_CASE("shares of a long run add up to one", "[long-run]") {
  LongRun run = large_run();
  for (const Recovery recovery : {Recovery::restart, Recovery::takeover})
    for (const int spares : {0, 3, 100})
      for (run.seed = 0; run.seed < 5; ++run.seed) {
        run.recovery = recovery, run.spares = spares;
        const LongRunResult result = simulate_long_run(run);
        CHECK(sum_of(result) == Approx(1).epsilon(1e-9));
        CHECK(result.failures > 100);
      }
}

TEST_CASE("restarts with spares lose what Young's and Daly's estimate says", "[long-run]") {
  LongRun run = large_run();
  run.spares = 1000;
  const double rate = run.host_rate * run.hosts;
  const LongRunResult mean = mean_of(run, 40);
  // A failure repeats half an interval and its stall on average; failures come during steps and stalls alone here.
  const double interval = run.save_every + run.save_stall;
  const double up = 1 - mean.down;
  CHECK(mean.repeated == Approx(rate * up * interval / 2).epsilon(0.05));
  // A restart takes 600 s, and begins again if a host fails meanwhile: (e^(rate T) - 1) / rate on average.
  CHECK(mean.down == Approx(rate * up * std::expm1(rate * run.restart) / rate).epsilon(0.05));
  CHECK(mean.restarts == Approx(mean.failures).epsilon(0.1));
}

TEST_CASE("takeovers keep more of a long run than restarts", "[long-run]") {
  LongRun run = large_run();
  run.spares = 100;
  const LongRunResult restarts = mean_of(run, 10);
  run.recovery = Recovery::takeover;
  const LongRunResult takeovers = mean_of(run, 10);
  CHECK(restarts.goodput < 0.93);
  CHECK(takeovers.goodput > 0.97);
  CHECK(takeovers.restarts == 0);
  run.spares = 0;
  CHECK(mean_of(run, 10).goodput == Approx(takeovers.goodput / 1.5).epsilon(0.03));  // some host is always in repair
}

TEST_CASE("a run on one host has no copy of its state to take over", "[long-run]") {
  LongRun run = large_run();
  run.hosts = 1;
  run.spares = 1;
  run.host_rate = 1 / day;
  run.recovery = Recovery::takeover;
  const LongRunResult result = simulate_long_run(run);
  CHECK(result.failures > 5);
  CHECK(result.restarts > 5);
}

TEST_CASE("a long run refuses times that are out of range", "[long-run]") {
  LongRun run = large_run();
  run.slowdowns = {0.5};
  CHECK_THROWS_AS(simulate_long_run(run), std::invalid_argument);
  run = large_run();
  run.step = 0;
  CHECK_THROWS_AS(simulate_long_run(run), std::invalid_argument);
}

}  // namespace pipetrain::schedules
