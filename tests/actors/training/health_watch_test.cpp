// The notes of a run about stages that fall behind, losses that jump and norms that grow.
#include "actors/training/records/health_watch.hpp"

#include "actors/golden_run.hpp"
#include "catch.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Matchers::Contains;
using schedules::ActionKind;

namespace {

// Makes reports of a fictitious run, in which each device's actions take the given times.
class WatchedSteps {
 public:
  explicit WatchedSteps(const TrainJob& job) : job_(job) {}
  double loss = 2, norm = 1;

  // slow: the times of this rank are multiplied by `factor`.
  StepReport next(int slow = -1, double factor = 1) {
    StepReport report;
    report.step = ++step_;
    report.loss = loss + 0.01 * static_cast<double>(step_ % 3);
    report.grad_norm = norm;
    report.tokens = 8;
    const Mesh mesh({.dp = static_cast<int>(job_.batch.dp), .pp = job_.layout.pp, .tp = job_.layout.tp});
    for (int rank = 0; rank < mesh.size(); ++rank) {
      DeviceTrace device{mesh.at(rank), {}};
      const double share = rank == slow ? factor : 1;
      for (int microbatch = 0; microbatch < job_.batch.microbatches; ++microbatch) {
        add(device, {ActionKind::forward, 0, microbatch}, 1 * share);
        add(device, {ActionKind::backward, 0, microbatch}, 2 * share);
      }
      add(device, {ActionKind::norm, 0, -1}, 0.1);
      add(device, {ActionKind::optimizer, 0, -1}, 0.1);
      if (device.rank.tp == 0) {
        StageTrace trace{{device.rank.dp, device.rank.pp, 0}, {}};
        for (const DeviceAction& one : device.actions) trace.actions.push_back({one.action, one.times});
        report.trace.push_back(std::move(trace));
      }
      report.devices.push_back(std::move(device));
    }
    report.seconds = 0.1;
    return report;
  }

 private:
  void add(DeviceTrace& device, const schedules::Action& action, double milliseconds) const {
    const auto start = device.actions.empty() ? std::chrono::steady_clock::time_point{} + std::chrono::seconds(step_)
                                              : device.actions.back().times.end;
    const auto length = std::chrono::duration_cast<std::chrono::steady_clock::duration>(
        std::chrono::duration<double, std::milli>(milliseconds));
    device.actions.push_back({action, {start, start + length}, start});
  }

  const TrainJob& job_;
  std::int64_t step_ = 0;
};

}  // namespace

TEST_CASE("a stage that computes for longer than simulated is reported once, with its rank") {
  const TrainJob job = with_plan(golden_job("llama3_tiny", {2, 1, 2, 2}));
  WatchedSteps steps(job);
  HealthWatch watch(job, {});
  std::vector<std::string> told;
  const auto run = [&](int count, int slow, double factor) {
    for (int step = 0; step < count; ++step)
      for (auto& line : watch.add(steps.next(slow, factor))) told.push_back(std::move(line));
  };
  run(40, -1, 1);
  run(19, 3, 1.3);
  run(1, -1, 1);     // one good step restarts the count
  run(40, 3, 1.05);  // within the limit
  CHECK(told.empty());
  run(60, 3, 1.3);
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains("step 120: stage 1, tp rank 0, replica 1 has computed for 30 % longer than simulated") &&
                          Contains("20 steps in a row"));
}

TEST_CASE("a loss that jumps and a norm that grows are reported once") {
  const TrainJob job = with_plan(golden_job("llama3_tiny", {}));
  WatchedSteps steps(job);
  HealthWatch watch(job, {});
  const auto add = [&](double loss, double norm) {
    steps.loss = loss, steps.norm = norm;
    return watch.add(steps.next());
  };
  for (int step = 0; step < 30; ++step) CHECK(add(2 - 0.01 * step, 1).empty());
  const auto spike = add(4, 1);
  REQUIRE(spike.size() == 1);
  CHECK_THAT(spike[0], Contains("step 31: the loss jumped to 4.0"));
  CHECK(add(5, 1).empty());
  std::vector<std::string> grown;
  for (int step = 0; step < 40; ++step)
    for (auto& line : add(1.7, 12)) grown.push_back(std::move(line));
  REQUIRE(grown.size() == 1);
  CHECK_THAT(grown[0], Contains("the gradient norm has grown to about 12, 12.0 times what it was"));
}

TEST_CASE("a router that sends nearly all tokens to the same experts is reported once for each layer") {
  const TrainJob job = with_plan(golden_job("mixtral_tiny", {}));  // 2 of 8 experts
  WatchedSteps steps(job);
  HealthWatch watch(job, {});
  const auto add = [&](std::vector<std::vector<double>> loads) {
    StepReport report = steps.next();
    for (std::size_t layer = 0; layer < loads.size(); ++layer)
      report.routed.push_back({static_cast<std::int64_t>(layer), std::move(loads[layer]), 0, 0});
    return watch.add(report);
  };
  const std::vector<double> even(8, 16), skewed{50, 0, 0, 4, 60, 14, 0, 0}, collapsed{64, 0, 0, 4, 60, 0, 0, 0};
  CHECK(add({even, skewed}).empty());
  const auto told = add({even, collapsed});
  REQUIRE(told.size() == 1);
  CHECK_THAT(told[0], Contains("step 2: the router of layer 1 has collapsed: 97 % of its choices go to 2 of 8 experts"));
  CHECK(add({even, collapsed}).empty());
  CHECK(add({collapsed, even}).size() == 1);
}

TEST_CASE("limits of 0 turn what is watched off") {
  const TrainJob job = with_plan(golden_job("llama3_tiny", {}));
  WatchedSteps steps(job);
  HealthWatch watch(job, {0, 20, 0, 0});
  for (int step = 0; step < 60; ++step) {
    steps.loss = step == 50 ? 100 : 2, steps.norm = step;
    CHECK(watch.add(steps.next(0, step > 30 ? 5 : 1)).empty());
  }
}
