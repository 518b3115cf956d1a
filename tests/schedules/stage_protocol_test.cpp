#include "schedules/protocol/stage_protocol.hpp"

#include <random>
#include <stdexcept>
#include <unordered_set>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "tests/schedules/pipeline_driver.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

std::shared_ptr<const Plan> shared_plan(const char* name, const ScheduleShape& shape, const EndOfStep& end = {}) {
  return std::make_shared<const Plan>(with_end_of_step(build_schedule(name, shape), end));
}

std::string next_planned(StageProtocol& protocol) {
  const auto action = protocol.next();
  return action ? to_string(*action) : "";
}

const Action f0{ActionKind::forward, 0, 0}, f1{ActionKind::forward, 0, 1}, b0{ActionKind::backward, 0, 0},
    b1{ActionKind::backward, 0, 1};

}  // namespace

TEST_CASE("planned: an action waits for its inputs, its credit and room ahead") {
  StageProtocol stage(shared_plan("1f1b", {2, 1, 3}), 0, Order::planned, 1);
  CHECK(next_planned(stage).empty());
  CHECK(stage.waiting_for() == "no step has begun");
  stage.begin_step();
  CHECK(stage.waiting_for() == "F0 waits for the activation of microbatch 0 and a free slot for its activation");
  stage.input_arrived(InputKind::activation, 0, 0);
  CHECK(next_planned(stage).empty());
  CHECK(stage.waiting_for() == "F0 waits for a free slot for its activation");
  stage.credit_returned(InputKind::activation, 0);
  stage.credit_returned(InputKind::activation, 0);
  CHECK(next_planned(stage) == "F0");
  CHECK(stage.in_flight() == 1);
  stage.input_arrived(InputKind::activation, 0, 1);
  CHECK(next_planned(stage).empty());  // it may have only one launched action
  CHECK(stage.waiting_for() == "launched and not completed: F0");
  stage.completed(f0);
  CHECK(next_planned(stage) == "F1");
  stage.completed(f1);
  CHECK(stage.waiting_for() == "B0 waits for the gradient of microbatch 0");
  stage.input_arrived(InputKind::gradient, 0, 1);
  CHECK(next_planned(stage).empty());
  stage.input_arrived(InputKind::gradient, 0, 0);
  CHECK(next_planned(stage) == "B0");  // the first virtual stage sends no gradient and needs no credit
}

TEST_CASE("planned: the last virtual stage needs targets, and its backward no gradient") {
  StageProtocol stage(shared_plan("1f1b", {2, 1, 1}), 1, Order::planned);
  stage.begin_step();
  stage.input_arrived(InputKind::activation, 0, 0);
  CHECK(stage.waiting_for() == "F0 waits for the target of microbatch 0");
  stage.input_arrived(InputKind::target, 0, 0);
  CHECK(next_planned(stage) == "F0");
  CHECK(stage.waiting_for() == "B0 waits for a free slot for its gradient");
  stage.credit_returned(InputKind::gradient, 0);
  CHECK(next_planned(stage) == "B0");
}

TEST_CASE("the optimizer waits for the verdict, and the step ends when all has completed") {
  StageProtocol stage(shared_plan("gpipe", {1, 1, 1}), 0, Order::planned, 8);
  stage.begin_step();
  stage.input_arrived(InputKind::activation, 0, 0);
  stage.input_arrived(InputKind::target, 0, 0);
  CHECK(next_planned(stage) == "F0");
  CHECK(next_planned(stage) == "B0");
  CHECK(next_planned(stage) == "N");
  CHECK(next_planned(stage).empty());
  CHECK(stage.waiting_for() == "O waits for the verdict");
  stage.verdict(true);
  CHECK(next_planned(stage) == "O");
  CHECK_FALSE(stage.step_done());
  for (const Action& action : {f0, b0, Action{ActionKind::norm, 0, -1}, Action{ActionKind::optimizer, 0, -1}}) {
    CHECK_FALSE(stage.step_done());
    stage.completed(action);
  }
  CHECK(stage.step_done());
  CHECK(stage.waiting_for() == "the step is done");
}

TEST_CASE("a verdict that skips ends the step without the optimizer, and the next step has one") {
  for (const auto order : {Order::planned, Order::ready}) {
    StageProtocol stage(shared_plan("1f1b", {1, 1, 1}), 0, order, 8);
    for (const bool apply : {false, true, false}) {
      stage.begin_step();
      stage.input_arrived(InputKind::activation, 0, 0);
      stage.input_arrived(InputKind::target, 0, 0);
      for (const std::string text : {"F0", "B0", "N"}) CHECK(next_planned(stage) == text);
      for (const Action& action : {f0, b0, Action{ActionKind::norm, 0, -1}}) stage.completed(action);
      CHECK_FALSE(stage.step_done());
      stage.verdict(apply);
      CHECK(next_planned(stage) == (apply ? "O" : ""));
      CHECK(stage.step_done() == !apply);
      if (apply) stage.completed({ActionKind::optimizer, 0, -1});
      CHECK(stage.step_done());
    }
  }
}

TEST_CASE("inputs of the coming step are kept until it begins, credits outlive steps") {
  for (const auto order : {Order::planned, Order::ready}) {
    StageProtocol stage(shared_plan("1f1b", {2, 1, 1}), 1, order, 8);
    stage.input_arrived(InputKind::activation, 0, 0);  // before the very first step too
    stage.credit_returned(InputKind::gradient, 0);
    stage.credit_returned(InputKind::gradient, 0);
    for (int step = 0; step < 2; ++step) {
      stage.begin_step();
      stage.input_arrived(InputKind::target, 0, 0);
      CHECK(next_planned(stage) == "F0");
      CHECK(next_planned(stage) == "B0");
      stage.input_arrived(InputKind::activation, 0, 0);  // of the next step
      CHECK_THROWS_WITH(stage.input_arrived(InputKind::activation, 0, 0),
                        Contains("activation of microbatch 0") && Contains("twice"));
      CHECK(next_planned(stage) == "N");
      stage.verdict(true);
      CHECK(next_planned(stage) == "O");
      CHECK(next_planned(stage).empty());
    }
  }
}

TEST_CASE("after an abort nothing is launched until the next step") {
  StageProtocol stage(shared_plan("gpipe", {1, 1, 2}), 0, Order::planned);
  stage.begin_step();
  for (int m = 0; m < 2; ++m) stage.input_arrived(InputKind::activation, 0, m), stage.input_arrived(InputKind::target, 0, m);
  CHECK(next_planned(stage) == "F0");
  stage.abort();
  CHECK(next_planned(stage).empty());
  CHECK(stage.step_done());
  stage.completed(f0);
  stage.verdict(false);  // it may have crossed the abort
  CHECK(next_planned(stage).empty());
  for (int m = 0; m < 2; ++m) stage.input_arrived(InputKind::activation, 0, m), stage.input_arrived(InputKind::target, 0, m);
  stage.begin_step();
  CHECK(next_planned(stage) == "F0");
  CHECK(next_planned(stage) == "F1");
}

TEST_CASE("impossible events are named") {
  StageProtocol stage(shared_plan("1f1b", {2, 1, 2}), 0, Order::planned);
  stage.begin_step();
  stage.input_arrived(InputKind::activation, 0, 0);
  CHECK_THROWS_WITH(stage.input_arrived(InputKind::activation, 0, 0), Contains("stage 0") && Contains("twice"));
  CHECK_THROWS_WITH(stage.input_arrived(InputKind::activation, 0, 2), Contains("microbatch 2") && Contains("not in the plan"));
  CHECK_THROWS_WITH(stage.input_arrived(InputKind::activation, 1, 0), Contains("not in the plan"));
  CHECK_THROWS_WITH(stage.input_arrived(InputKind::target, 0, 0), Contains("target"));
  CHECK_THROWS_WITH(stage.credit_returned(InputKind::gradient, 0), Contains("gradient"));
  CHECK_THROWS_WITH(stage.credit_returned(InputKind::activation, 3), Contains("chunk 3"));
  CHECK_THROWS_WITH(stage.completed(b1), Contains("B1") && Contains("not running"));
  CHECK_THROWS_WITH(stage.begin_step(), Contains("a step begins although F0 waits"));
  stage.verdict(true);
  CHECK_THROWS_AS(stage.verdict(true), std::logic_error);
  StageProtocol last(shared_plan("1f1b", {2, 1, 2}), 1, Order::planned);
  CHECK_THROWS_WITH(last.input_arrived(InputKind::gradient, 0, 0), Contains("gradient"));
  CHECK_THROWS_WITH(last.credit_returned(InputKind::activation, 0), Contains("activation"));
  CHECK_THROWS_AS(StageProtocol(shared_plan("1f1b", {2, 1, 2}), 2, Order::planned), std::invalid_argument);
  CHECK_THROWS_AS(StageProtocol(shared_plan("1f1b", {2, 1, 2}), 0, Order::planned, 0), std::invalid_argument);
  Plan without_rule = build_schedule("1f1b", {2, 1, 2});
  without_rule.ready_rule = ReadyRule::none;
  CHECK_THROWS_AS(StageProtocol(std::make_shared<const Plan>(without_rule), 0, Order::ready), std::invalid_argument);
}

TEST_CASE("ready 1f1b: backward first, else forward while fewer than p - stage are in flight") {
  StageProtocol stage(shared_plan("1f1b", {3, 1, 4}), 1, Order::ready, 100);
  for (int i = 0; i < 4; ++i) stage.credit_returned(InputKind::activation, 0), stage.credit_returned(InputKind::gradient, 0);
  stage.begin_step();
  for (int m = 0; m < 4; ++m) stage.input_arrived(InputKind::activation, 0, m);
  CHECK(next_planned(stage) == "F0");
  CHECK(next_planned(stage) == "F1");
  CHECK(next_planned(stage).empty());  // p - stage = 2
  stage.input_arrived(InputKind::gradient, 0, 1);
  CHECK(next_planned(stage).empty());  // microbatch order is kept even if the later gradient arrives first
  stage.input_arrived(InputKind::gradient, 0, 0);
  CHECK(next_planned(stage) == "B0");
  CHECK(next_planned(stage) == "B1");
  CHECK(next_planned(stage) == "F2");
}

TEST_CASE("ready gpipe: forwards first, a backward only when no forward is ready") {
  StageProtocol stage(shared_plan("gpipe", {2, 1, 3}), 0, Order::ready, 100);
  for (int i = 0; i < 3; ++i) stage.credit_returned(InputKind::activation, 0);
  stage.begin_step();
  stage.input_arrived(InputKind::activation, 0, 0);
  stage.input_arrived(InputKind::activation, 0, 1);
  CHECK(next_planned(stage) == "F0");
  stage.input_arrived(InputKind::gradient, 0, 0);
  CHECK(next_planned(stage) == "F1");
  CHECK(next_planned(stage) == "B0");
  stage.input_arrived(InputKind::activation, 0, 2);
  CHECK(next_planned(stage) == "F2");
}

namespace {

void check_steps(const Plan& compute, Order order, const SlotLife& life, unsigned seed) {
  const auto plan = std::make_shared<const Plan>(with_end_of_step(compute, {true, true, true}));
  PipelineDriver driver(plan, order, validate(*plan, order, life), 1 + static_cast<int>(seed % 3), life);
  std::mt19937 random(seed);
  for (int step = 0; step < 4; ++step) {
    const StepKind kind = step == 1 ? StepKind::evaluation : StepKind::training;
    for (auto& trace : driver.traces) trace.clear();
    driver.begin_step(kind);
    driver.run([&](std::size_t n) { return random() % n; });
    INFO(compute.schedule << " p=" << plan->placement.stages() << " m=" << plan->microbatches << " seed=" << seed << "\n"
                          << driver.report());
    REQUIRE(driver.all_done());
    for (int stage = 0; stage < plan->placement.stages(); ++stage) {
      const std::string& trace = driver.traces[static_cast<std::size_t>(stage)];
      if (kind == StepKind::evaluation) {
        REQUIRE(trace + "O" == list_text(forward_pass(*plan), stage));
      } else if (order == Order::planned) {
        REQUIRE(trace == list_text(*plan, stage) + " ");
      }
    }
  }
}

const SlotLife lives[] = {{ActionKind::input_grad, ActionKind::weight_grad},
                          {ActionKind::forward, ActionKind::input_grad},
                          {ActionKind::weight_grad, ActionKind::weight_grad}};

}  // namespace

TEST_CASE("every schedule ends with exactly the proven slots, in random message orders, over several steps and an evaluation") {
  unsigned seed = 1;
  for (const ScheduleInfo& info : all_schedules())
    for (const int stages : {1, 2, 3, 4})
      for (const int microbatches : {1, 2, 3, 5, 8})
        for (const SlotLife& life : lives)
          for (const auto order : {Order::planned, Order::ready})
            if (order == Order::planned || info.has_ready_rule)
              check_steps(info.build({stages, info.default_chunks, microbatches}), order, life, seed++);
}

namespace {

// Tries every order in which messages can arrive over `steps` steps; returns the number of different states reached.
std::size_t explore(const std::shared_ptr<const Plan>& plan, Order order, int steps) {
  const auto needs = validate(*plan, order);
  std::unordered_set<std::string> seen;
  std::vector<std::vector<std::string>> open{{}};  // paths to unexplored states, each replayed from the start
  while (!open.empty()) {
    const auto path = std::move(open.back());
    open.pop_back();
    PipelineDriver driver(plan, order, needs);
    int begun = 0;
    const auto begin_if_idle = [&] {
      if (!driver.deliverable().empty() && begun > 0) return;
      if (begun > 0 && !driver.all_done()) FAIL("stuck:\n" << driver.report());
      if (begun++ < steps) driver.begin_step();
    };
    begin_if_idle();
    for (const auto& key : path) {
      driver.deliver(key);
      begin_if_idle();
    }
    if (!seen.insert(driver.fingerprint()).second) continue;
    for (const auto& key : driver.deliverable()) {
      open.push_back(path);
      open.back().push_back(key);
    }
  }
  return seen.size();
}

}  // namespace

TEST_CASE("no order of messages stops a small pipeline") {
  struct Size {
    int stages, microbatches, steps;
  };
  for (const ScheduleInfo& info : all_schedules())
    for (const Size& size : {Size{1, 2, 2}, Size{2, 1, 1}, Size{2, 2, 1}, Size{3, 1, 1}})
      for (const auto order : {Order::planned, Order::ready}) {
        if (order == Order::ready && !info.has_ready_rule) continue;
        // Two chunks have hundreds of times the states; beyond this size, random orders must suffice.
        if (info.default_chunks > 1 && size.stages * size.microbatches > 2) continue;
        const Plan compute = info.build({size.stages, info.default_chunks, size.microbatches});
        CAPTURE(info.name, size.stages, size.microbatches);
        CHECK(explore(std::make_shared<const Plan>(compute), order, size.steps) > 20);
      }
}

TEST_CASE("no order of messages stops the end of a step and the beginning of the next") {
  for (const char* name : {"1f1b", "zb-h1"})
    for (const auto order : {Order::planned, Order::ready}) {
      const auto plan = std::make_shared<const Plan>(with_end_of_step(build_schedule(name, {2, 1, 1}), {true, true, true}));
      CHECK(explore(plan, order, 2) > 100);
    }
}
