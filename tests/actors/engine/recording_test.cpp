// Replays of records of running stages have the same actions, chosen by the same class, at the same times.
#include <algorithm>
#include <chrono>
#include <memory>

#include "actors/engine/caf.hpp"
#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "actors/engine/run_failed.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/record/replay.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;
using schedules::Action;
using schedules::Order;
using schedules::StepKind;

namespace {

struct Recorder : RunRecorder {
  void begin(schedules::RecordedRun begun) override { run = std::move(begun); }
  void step(schedules::RecordedStep step) override { steps.push_back(std::move(step)); }
  schedules::RecordedRun run;
  std::vector<schedules::RecordedStep> steps;
};

std::chrono::nanoseconds time_of(StageId stage, const Action& action) {
  return 1us * (100 + 10 * static_cast<int>(action.kind) + 7 * stage.stage + action.microbatch % 3);
}

struct Run {
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  std::vector<StepOutcome> outcomes;
};

// Runs three steps, the second an evaluation, in virtual time.
Run run_recorded_actors(const schedules::Plan& plan, Order order, int replicas) {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system{config};
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  Run run;
  PipelineOptions options;
  options.plan = plan;
  options.order = order;
  options.replicas = replicas;
  options.system = &system;
  options.virtual_time = true;
  options.recorder = run.recorder;
  auto pipeline = std::make_unique<Pipeline>(
      options, [](StageId id, const schedules::StageNeeds&) { return make_sleeping_compute(id, time_of); },
      [](int) { return make_empty_source(); });
  for (const auto kind : {StepKind::training, StepKind::evaluation, StepKind::training}) {
    const std::int64_t number = std::ssize(run.outcomes) + 1;
    auto outcome = pipeline->start_step({number, plan.microbatches, 1, 0, 1, 1, kind},
                                        [&](const auto&) { return Verdict{.apply = kind == StepKind::training}; });
    scheduler.run();
    while (outcome.wait_for(0s) != std::future_status::ready && scheduler.has_pending_timeout()) {
      scheduler.trigger_timeout();
      scheduler.run();
    }
    REQUIRE(outcome.wait_for(0s) == std::future_status::ready);
    run.outcomes.push_back(outcome.get());
    run.recorder->step({number, kind, false, run.outcomes.back().logs});
  }
  pipeline.reset();
  scheduler.run();
  return run;
}

void check_replay(const Run& run) {
  schedules::Replay replay(run.recorder->run);
  for (std::size_t step = 0; step < run.outcomes.size(); ++step) {
    replay.load(run.recorder->steps[step]);
    replay.play();
    const auto& stages = run.outcomes[step].stages;
    for (int log = 0; log < replay.run().logs(); ++log) {
      const auto& trace = stages[static_cast<std::size_t>(log)].actions;
      const auto& replayed = replay.actions(log);
      INFO("step " << step << " log " << log);
      REQUIRE(replayed.size() == trace.size());
      REQUIRE(replay.launched(log).size() == trace.size());
      for (std::size_t i = 0; i < trace.size(); ++i) {
        CHECK(replayed[i].action == trace[i].action);
        CHECK(std::chrono::nanoseconds(replayed[i].start) == trace[i].times.start.time_since_epoch());
        CHECK(std::chrono::nanoseconds(replayed[i].end) == trace[i].times.end.time_since_epoch());
      }
    }
  }
}

}  // namespace

TEST_CASE("a recorded run of every schedule and order replays to the identical trace") {
  for (const auto& schedule : schedules::all_schedules()) {
    for (const auto order : {Order::planned, Order::ready}) {
      if (order == Order::ready && !schedule.has_ready_rule) continue;
      for (const int replicas : {1, 2}) {
        INFO(schedule.name << (order == Order::ready ? " ready" : " planned") << ", replicas " << replicas);
        const auto plan = with_end_of_step(schedules::build_schedule(schedule.name, {3, schedule.default_chunks, 6}), {});
        check_replay(run_recorded_actors(plan, order, replicas));
      }
    }
  }
}

TEST_CASE("a recorded run with custom actions replays to the identical trace") {
  const auto plan = schedules::parse_plan(
      "schedule: mine\nmicrobatches: 2\ncustom X0: fetch uses nic\ncustom X1: send after 0:B0 uses nic\n"
      "stage 0: X0 F0 F1 B0 B1 N O\nstage 1: F0 B0 F1 X1 B1 N O\n",
      "plan.txt");
  for (const int replicas : {1, 2}) {
    const Run run = run_recorded_actors(plan, Order::planned, replicas);
    check_replay(run);
    CHECK(run.outcomes[0].stages[1].actions[3].action == Action{schedules::ActionKind::custom, 0, 1});
  }
}

TEST_CASE("a moment of a replay has every slot once") {
  const auto plan = with_end_of_step(schedules::build_schedule("1f1b", {4, 1, 8}), {});
  const Run run = run_recorded_actors(plan, Order::planned, 1);
  std::int64_t begin = 0, end = 0;
  {
    schedules::Replay whole(run.recorder->run);
    whole.load(run.recorder->steps.front());
    begin = whole.begins(), end = whole.ends();
  }
  REQUIRE(end > begin);
  for (int part = 0; part <= 10; ++part) {
    schedules::Replay replay(run.recorder->run);
    replay.load(run.recorder->steps.front());
    replay.play(begin + (end - begin) * part / 10);
    for (const auto& queue : replay.queues()) {
      const auto& needs =
          run.recorder->run.needs[static_cast<std::size_t>(plan.placement.at(queue.virtual_stage).stage)].chunks[0];
      const int slots = queue.kind == schedules::InputKind::activation ? needs.activation_slots
                        : queue.kind == schedules::InputKind::gradient ? needs.gradient_slots
                                                                       : needs.target_slots;
      const auto unused = std::count(queue.holders.begin(), queue.holders.end(), schedules::SlotHolder::none);
      CHECK(queue.free + queue.returning + std::ssize(queue.holders) - unused == slots);
    }
    CHECK(replay.stages().size() == 4);
  }
}

TEST_CASE("a record that was tampered with is noticed: another decision, or a message that nobody sent") {
  const auto plan = with_end_of_step(schedules::build_schedule("1f1b", {2, 1, 4}), {});
  const Run run = run_recorded_actors(plan, Order::planned, 1);
  auto other = run.recorder->run;
  std::swap(other.plan.stages[1][2], other.plan.stages[1][1]);  // F0 B0 F1: F0 F1 B0
  schedules::Replay replay(other);
  replay.load(run.recorder->steps.front());
  CHECK_THROWS_AS(replay.play(), schedules::ReplayError);

  auto step = run.recorder->steps.front();
  step.logs[0].bytes.clear();
  schedules::Replay half(run.recorder->run);
  step.failed = true;  // a stage that could not report: its messages are accepted unchecked
  half.load(step);
  CHECK_NOTHROW(half.play());
  step.failed = false;
  schedules::Replay whole(run.recorder->run);
  whole.load(step);
  CHECK_THROWS_AS(whole.play(), schedules::ReplayError);
}

TEST_CASE("a run over threads is recorded in few bytes, by steps that failed too") {
  const auto recorder = std::make_shared<Recorder>();
  PipelineOptions options;
  options.plan = with_end_of_step(schedules::build_schedule("1f1b", {4, 1, 16}), {});
  options.recorder = recorder;
  Pipeline pipeline(
      options, [](StageId id, const schedules::StageNeeds&) { return make_sleeping_compute(id, time_of); },
      [](int) { return make_empty_source(); });
  for (std::int64_t step = 1; step <= 3; ++step) pipeline.step({step, 16, 1, 0}, [](const auto&) { return Verdict{}; });
  CHECK_THROWS_AS(pipeline.step({4, 16, 1, 0}, [](const auto&) -> Verdict { throw Error(ErrorKind::numeric, "not finite"); }),
                  RunFailed);
  REQUIRE(recorder->steps.size() == 4);
  CHECK(recorder->steps.back().failed);
  schedules::Replay replay(recorder->run);
  for (const auto& step : recorder->steps) {
    for (const auto& log : step.logs) {
      CHECK_FALSE(log.bytes.empty());
      CHECK(log.bytes.size() <= 1024);
    }
    replay.load(step);
    replay.play();
  }
  for (const auto& stage : replay.stages()) CHECK_THAT(stage.waiting, Catch::Matchers::Contains("the verdict"));
}
