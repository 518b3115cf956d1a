// The times of actions are on one clock for all devices, in an order that their data allows.
#include <algorithm>
#include <map>
#include <thread>
#include <tuple>

#include "actors/golden_run.hpp"
#include "actors/training/rank/action_clock.hpp"
#include "actors/training/records/run_timeline.hpp"
#include "catch.hpp"
#include "core/cpu_stream.hpp"
#include "core/device.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Action;
using schedules::ActionKind;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

TEST_CASE("an action's times are those at which it ran on its device") {
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("s");
  ActionClock clock(*device);
  for (int step = 0; step < 2; ++step) {
    clock.begin_step(*stream);
    const auto before = Clock::now();
    std::vector<Clock::time_point> ran(6);
    for (int i = 0; i < 3; ++i) {
      clock.start(*stream, {ActionKind::forward, 0, i});
      cpu_stream(*stream).enqueue([&ran, i] {
        ran[static_cast<std::size_t>(2 * i)] = Clock::now();
        std::this_thread::sleep_for(milliseconds(4));
        ran[static_cast<std::size_t>(2 * i + 1)] = Clock::now();
      });
      clock.end(*stream);
      clock.collect();
    }
    stream->synchronize();
    clock.collect();
    const auto actions = clock.actions();
    REQUIRE(actions.size() == 3);
    for (int i = 0; i < 3; ++i) {
      const auto& [action, times, issued] = actions[static_cast<std::size_t>(i)];
      CHECK(action == Action{ActionKind::forward, 0, i});
      CHECK(times.start >= before);
      CHECK(times.start <= ran[static_cast<std::size_t>(2 * i)]);
      CHECK(times.end >= ran[static_cast<std::size_t>(2 * i + 1)]);
      CHECK(times.end - times.start >= milliseconds(4));
      CHECK(issued >= before);
      if (i == 2) CHECK(issued < times.end);  // the host runs ahead
    }
  }
}

TEST_CASE("collecting times while an action is being issued leaves it to the end of its issue") {
  const auto device = make_cpu_device(0, 1);
  const auto stream = device->make_stream("s");
  ActionClock clock(*device);
  clock.begin_step(*stream);
  for (int i = 0; i < 3; ++i) {  // the second round reuses the first one's events
    clock.start(*stream, {ActionKind::forward, 0, i});
    clock.collect();
    CHECK(clock.actions().size() == static_cast<std::size_t>(i));
    clock.end(*stream);
    stream->synchronize();
    clock.collect();
    CHECK(clock.actions().size() == static_cast<std::size_t>(i + 1));
  }
}

TEST_CASE("a run's trace shows actions after what they need, and one at a time on a stage") {
  for (const Layout layout :
       {Layout{2}, Layout{2, 2, 1, 1, "zb-h1"}, Layout{2, 1, 2, 1, "interleaved", 2}, Layout{2, 1, 1, 1, "zb-v", 2}}) {
    INFO(to_string(layout));
    Trainer trainer(golden_job("llama2_tiny", layout));
    const auto placement = schedules::build_schedule(layout.schedule, {layout.pp, layout.chunks, 1}).placement;
    for (int step = 0; step < 2; ++step) {
      const auto before = Clock::now();
      const StepReport report = trainer.step();
      const auto after = Clock::now();
      CHECK(report.bubble >= 0);
      CHECK(report.bubble < 1);
      std::map<std::tuple<int, int, ActionKind, int>, ActionTimes> times;
      for (const auto& [id, actions] : report.trace) {
        auto free = before;
        for (const auto& [action, ran] : actions) {
          CHECK(ran.start >= free);
          CHECK(ran.end > ran.start);
          CHECK(ran.end <= after);
          free = ran.end;
          times[{id.replica, placement.virtual_stage(id.stage, action.chunk), action.kind, action.microbatch}] = ran;
        }
      }
      for (const auto& [place, ran] : times) {
        const auto [replica, v, kind, microbatch] = place;
        if (kind != ActionKind::forward || v == 0) continue;
        CHECK(ran.start >= times.at({replica, v - 1, kind, microbatch}).end);
      }
    }
  }
}

TEST_CASE("a run's timeline has a row for every device") {
  TrainJob job = with_plan(golden_job("llama2_tiny", Layout{2, 2, 2}));
  RunTimeline rows(job);
  const auto microbatches = job.batch.microbatches;
  Trainer trainer(std::move(job));
  for (int step = 0; step < 2; ++step) rows.add(trainer.step());
  const auto timeline = rows.timeline();
  CHECK(timeline.names == std::vector<std::string>{"replica 0 stage 0 rank 0", "replica 0 stage 0 rank 1",
                                                   "replica 0 stage 1 rank 0", "replica 0 stage 1 rank 1",
                                                   "replica 1 stage 0 rank 0", "replica 1 stage 0 rank 1",
                                                   "replica 1 stage 1 rank 0", "replica 1 stage 1 rank 1"});
  REQUIRE(timeline.stages.size() == 8);
  for (const auto& spans : timeline.stages) {
    CHECK(std::count_if(spans.begin(), spans.end(), [](const auto& span) { return span.action.kind == ActionKind::forward; }) ==
          2 * microbatches);
    for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i].start >= spans[i - 1].end);
  }
}
