// Plans with braids: text, rules, launching, and the time they take.
#include <algorithm>
#include <random>
#include <sstream>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/plan/activation_offload.hpp"
#include "schedules/plan/braids.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/plan/validate.hpp"
#include "schedules/simulate/simulate.hpp"
#include "schedules/simulate/stage_times.hpp"
#include "tests/schedules/pipeline_driver.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

std::string braid_fault(const std::string& lists, const std::string& more = "") {
  try {
    parse_plan("schedule: hand\nmicrobatches: 3\n" + more + lists, "plan.txt");
  } catch (const PlanFileError& error) {
    return error.what();
  }
  return "";
}

// F, I and W of a stage take 1, and F and I communicate in addition.
Costs braid_costs(const Plan& plan, double communication, int collectives = 16) {
  const auto stages = static_cast<std::size_t>(plan.placement.stages());
  StageTimes times;
  times.forward.assign(stages, 1 + communication);
  times.input_grad.assign(stages, 1 + communication);
  times.weight_grad.assign(stages, 1);
  times.communication.assign(stages, communication);
  times.collectives = collectives;
  times.edges.assign(stages, Link{});
  return times.costs(plan);
}

Summary simulated_braids(const Plan& plan, double communication) {
  return summarize(simulate(plan, braid_costs(plan, communication), {.room = QueueRoom::all}));
}

double braided_makespan(const std::string& name, int stages, int microbatches, double communication) {
  const ScheduleInfo* info = find_schedule(name);
  return simulated_braids(build_schedule(name, {stages, info->default_chunks, microbatches}), communication).makespan;
}

}  // namespace

TEST_CASE("a braid is written with a plus") {
  const std::string text =
      "schedule: hand\nplacement: looping\nchunks: 1\nmicrobatches: 3\nstage 0: F0 F1 F2+B0 B1 B2\nstage 1: F0 F1+B0 F2+I1 W1 "
      "B2\n";
  const Plan plan = parse_plan(text, "plan.txt");
  CHECK(plan.braids == std::vector<std::vector<std::int32_t>>{{2}, {1, 3}});
  CHECK(plan.stages[1][4] == Action{ActionKind::input_grad, 0, 1});
  CHECK(to_text(plan) == text);
  CHECK(braid_starts(plan, 0) == std::vector<bool>{false, false, true, false, false, false});
  CHECK(to_pytorch_csv(plan) == "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n1F0,(1F1;1B0)OVERLAP_F_B,1F2,1I1,1W1,1B2\n");
}

TEST_CASE("actions that cannot be braided are refused with their location") {
  CHECK(braid_fault("stage 0: F0 F1+B0 F2+B1 B2\n") == "");
  CHECK(braid_fault("stage 0: F0 F1+F2 B0 B1 B2\n") == "");
  CHECK_THAT(braid_fault("stage 0: F0+B0 F1 F2 B1 B2\n"),
             Contains("plan.txt:3: stage 0: F0+B0 is no braid") && Contains("such as F3+B1"));
  CHECK_THAT(braid_fault("stage 0: F0 F1 B0+F2 B1 B2\n"), Contains("B0+F2 is no braid"));
  CHECK_THAT(braid_fault("stage 0: F0 F1 F2 B0 B1 B2+N O\n"), Contains("B2+N is no braid"));
  CHECK_THAT(braid_fault("stage 0: F0 F1+B0+F2 B1 B2\n"), Contains("\"B0+F2\" is not an action"));
  CHECK_THAT(braid_fault("stage 0: F0 F1+ B0 F2 B1 B2\n"), Contains("\"\" is not an action"));
  CHECK_THAT(braid_fault("stage 0: F0 F1+B0 F2 B1 B2\n", "ready: forward-first\n"), Contains("leave its ready rule out"));
  CHECK_THAT(braid_fault("stage 0: F0.0 F0.1 B0.1 F1.0+B0.0 F1.1 B1.1 B1.0 F2.0 F2.1 B2.1 B2.0\n", "slices: 2\n"),
             Contains("slices, which are not braided"));
  CHECK_THAT(braid_fault("stage 0: F0 P0 F1 G0 F2+B0 B1 B2\n"), Contains("P0 moves activations"));
  Plan plan = build_schedule("braided-v", {2, 2, 8});
  CHECK_THROWS_WITH(offload_activations(plan, 1), Contains("braids"));
  plan.braids[0].front() = 1000;
  CHECK_THROWS_WITH(check_plan(plan), Contains("position 1000"));
}

// Stage 1 needs F1 of stage 0 for its gradient of microbatch 0, and stage 0 needs that gradient for F1.
TEST_CASE("a braid that waits for itself is a deadlock, and its parts alone are not") {
  CHECK(braid_fault("stage 0: F0 F1 B0 F2 B1 B2\nstage 1: F0 F1 B0 F2 B1 B2\n") == "");
  CHECK_THAT(braid_fault("stage 0: F0 F1+B0 F2 B1 B2\nstage 1: F0 F1 B0 F2 B1 B2\n"),
             Contains("deadlocks") && Contains("stage 0 B0 waits for its gradient from stage 1"));
  CHECK(braid_fault("stage 0: F0 F1 F2+B0 B1 B2\nstage 1: F0 F1 B0 F2 B1 B2\n") == "");
}

TEST_CASE("a stage launches a braid once both of its actions can run, and counts it as one of those that run ahead") {
  const Plan plan =
      parse_plan("schedule: hand\nmicrobatches: 3\nstage 0: F0 F1 F2+B0 B1 B2\nstage 1: F0 F1 B0 F2 B1 B2\n", "plan.txt");
  StageProtocol stage(std::make_shared<const Plan>(plan), 0, Order::planned, 2);
  for (int i = 0; i < 3; ++i) stage.credit_returned(InputKind::activation, 0);
  stage.begin_step();
  for (int m = 0; m < 3; ++m) stage.input_arrived(InputKind::activation, 0, m);
  const auto launched = [&] {
    const Action* action = stage.next();
    return action == nullptr ? std::string("-") : to_string(*action);
  };
  CHECK(launched() == "F0");
  CHECK_FALSE(stage.begins_braid());
  CHECK(launched() == "F1");
  CHECK(launched() == "-");
  for (int m = 0; m < 2; ++m) stage.completed({ActionKind::forward, 0, m});
  CHECK(launched() == "-");
  CHECK_THAT(stage.waiting_for(), Contains("B0 waits for the gradient of microbatch 0"));
  stage.input_arrived(InputKind::gradient, 0, 0);
  CHECK(launched() == "F2");
  CHECK(stage.begins_braid());
  CHECK(launched() == "B0");
  CHECK_FALSE(stage.begins_braid());
  CHECK(stage.in_flight() == 2);
  for (int m = 1; m < 3; ++m) stage.input_arrived(InputKind::gradient, 0, m);
  CHECK(launched() == "B1");  // the braid and this one
  CHECK(launched() == "-");
  stage.completed({ActionKind::forward, 0, 2});
  CHECK(launched() == "-");
  stage.completed({ActionKind::backward, 0, 0});
  CHECK(launched() == "B2");
}

TEST_CASE("braids of any kind end with exactly the proven slots, in random message orders") {
  std::mt19937 random(7);
  int braided = 0;
  for (int round = 0; round < 600; ++round) {
    const char* const names[] = {"1f1b", "interleaved", "zb-v", "gpipe", "zb-h2", "dualpipe-v"};
    const ScheduleInfo& info = *find_schedule(names[random() % std::size(names)]);
    const int stages = 1 + static_cast<int>(random() % 4), microbatches = 1 + static_cast<int>(random() % 7);
    Plan plan = info.build({stages, info.default_chunks, microbatches});
    plan.ready_rule = ReadyRule::none;
    plan.braids.resize(plan.stages.size());
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage)
      for (std::size_t at = 0; at + 1 < plan.stages[stage].size(); ++at) {
        if (!is_braid(plan.stages[stage][at], plan.stages[stage][at + 1]) || random() % 2 == 0) continue;
        plan.braids[stage].push_back(static_cast<std::int32_t>(at));
        try {
          check_plan(plan);
          ++braided, ++at;
        } catch (const InvalidPlan& error) {
          REQUIRE(error.fault().find("deadlocks") != std::string::npos);
          // A plan that is refused as a deadlock does not finish even with slots for all microbatches.
          plan.braids[stage].pop_back();
        }
      }
    INFO(to_text(plan));
    const auto shared = std::make_shared<const Plan>(plan);
    PipelineDriver driver(shared, Order::planned, validate(plan));
    for (int step = 0; step < 2; ++step) {
      driver.begin_step();
      driver.run([&](std::size_t n) { return random() % n; });
      REQUIRE(driver.all_done());
    }
    REQUIRE_NOTHROW(simulated_braids(plan, 0.3));
  }
  CHECK(braided > 1000);
}

TEST_CASE("the parts of a braid alternate, and each one's collectives are overlapped with the other's compute") {
  // There is nothing to overlap: one action follows the other.
  CHECK(braid_times({2, 0}, {3, 0}, 4).first_end == 2);
  CHECK(braid_times({2, 0}, {3, 0}, 4).end == 5);
  // In one part: F, then its collective overlapped with B, then B's collective, with nothing left to overlap.
  CHECK(braid_times({2, 1}, {3, 1.5}, 1).first_end == 3);
  CHECK(braid_times({2, 1}, {3, 1.5}, 1).end == 6.5);
  // In many parts: only the last collective remains.
  CHECK(braid_times({2, 1}, {3, 1.5}, 100).end == Approx(5 + 1.5 / 100));
  // With as much communication as compute, as much as possible is overlapped.
  CHECK(braid_times({1, 4}, {1, 4}, 100).end == Approx(8).margin(0.05));
  // W has none, and F's is overlapped with it.
  CHECK(braid_times({2, 1}, {3, 0}, 10).end == Approx(5));
  for (const double communication : {0.05, 0.3, 1.0})
    for (const int parts : {1, 3, 16}) {
      const BraidTimes times = braid_times({1, communication}, {2, communication}, parts);
      CHECK(times.end < 3 + 2 * communication);
      CHECK(times.end > 3);
      CHECK(times.first_end < times.end);
    }
}

TEST_CASE("a simulated braid waits for both inputs, and its critical path is unbroken") {
  const Plan plan =
      parse_plan("schedule: hand\nmicrobatches: 3\nstage 0: F0 F1 F2+B0 B1 B2\nstage 1: F0 B0 F1 F2+B1 B2\n", "plan.txt");
  const Timeline timeline = simulate(plan, braid_costs(plan, 0.5, 1));
  const Span &forward = timeline.stages[0][2], &backward = timeline.stages[0][3];
  CHECK(forward.begins_braid);
  CHECK(forward.waited_for == WaitedFor::gradient);
  CHECK(forward.start == Approx(5.5));  // 1.5 and 1.5 of F0, 2.5 of B0
  CHECK(forward.end == Approx(7));
  CHECK(backward.start == forward.end);
  CHECK(backward.end == Approx(9));  // 1 of F2, 2 of B0 overlapped with its collective, and B0's own: 0.5 alone
  std::ostringstream trace;
  write_chrome_trace(trace, timeline);
  CHECK_THAT(trace.str(), Contains("\"name\":\"F2\"") && Contains("\"waited_for\":\"gradient\",\"braided_with\":\"B0\"}}"));
  double at = 0;
  for (const SpanRef& ref : critical_path(timeline)) {
    const Span& span = timeline.stages[static_cast<std::size_t>(ref.stage)][ref.index];
    CHECK(span.start == Approx(at).margin(1e-9));
    at = span.end;
  }
  CHECK(at == Approx(summarize(timeline).makespan));
}

TEST_CASE("braided-v is dualpipe-v where nothing is communicated, and faster than all others where much is") {
  for (const int p : {1, 2, 3, 4, 8})
    for (const int m : {1, p, 2 * p, 4 * p}) {
      const Plan plan = build_schedule("braided-v", {p, 2, m}), pairs = build_schedule("dualpipe-v", {p, 2, m});
      CHECK(plan.stages == pairs.stages);
      CHECK(simulated_braids(plan, 0).makespan == Approx(simulated_braids(pairs, 0).makespan));
    }
  for (const int p : {1, 2, 4, 8})
    for (const int m : {4 * p, 8 * p})
      for (const double communication : {0.05, 0.1, 0.2, 0.5}) {
        CAPTURE(p, m, communication);
        const double braided = braided_makespan("braided-v", p, m, communication);
        for (const char* other : {"1f1b", "interleaved", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "dualpipe-v", "v-half"})
          CHECK(braided < braided_makespan(other, p, m, communication));
        const Summary summary = simulated_braids(build_schedule("braided-v", {p, 2, m}), communication);
        for (const StageSummary& stage : summary.stages) CHECK(stage.peak_activations <= p + 0.5);
      }
}

TEST_CASE("a single stage braids all but its first forwards and its last backwards") {
  for (const int m : {2, 3, 16}) {
    const Plan plan = build_schedule("braided-v", {1, 2, m});
    CHECK(std::ssize(plan.braids[0]) == 2 * (m - 1));
    CHECK_NOTHROW(validate(plan));
  }
  const int m = 16;
  const double communication = 0.2;  // in 16 parts of each action, the last of which is waited for
  const double left = braided_makespan("braided-v", 1, m, communication) - braided_makespan("braided-v", 1, m, 0);
  CHECK(left < 0.2 * (braided_makespan("1f1b", 1, m, communication) - braided_makespan("1f1b", 1, m, 0)));
}

TEST_CASE("most of what is communicated in the steady state is hidden") {
  const int p = 4, m = 64;
  const double communication = 0.2,
               exposed = braided_makespan("dualpipe-v", p, m, communication) - braided_makespan("dualpipe-v", p, m, 0);
  const double left = braided_makespan("braided-v", p, m, communication) - braided_makespan("braided-v", p, m, 0);
  CHECK(left < 0.25 * exposed);
}
