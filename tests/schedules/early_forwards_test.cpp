// Steps whose forwards begin before the verdict on the previous step.
#include <random>
#include <stdexcept>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "tests/schedules/pipeline_driver.hpp"

using namespace pipetrain::schedules;

namespace {

constexpr SlotLife life{ActionKind::input_grad, ActionKind::weight_grad};

std::string next_early(StageProtocol& protocol) {
  const auto action = protocol.next();
  return action ? to_string(*action) : "";
}

// A pipeline of one stage that has launched and completed everything but O; the next step's inputs are there.
StageProtocol before_the_verdict(int microbatches = 2, NextStep next = NextStep::at_once) {
  const auto plan = std::make_shared<const Plan>(with_end_of_step(build_schedule("gpipe", {1, 1, microbatches}), {}));
  StageProtocol stage(plan, 0, Order::planned);
  stage.begin_step(StepKind::training, nullptr, next);
  for (const int step : {0, 1})
    for (int m = 0; m < microbatches; ++m)
      for (const auto kind : {InputKind::activation, InputKind::target})
        CHECK(stage.input_arrived(kind, 0, m) == (step == 0 ? StepOf::running : StepOf::coming));
  for (int done = 0; done < 2 * microbatches + 1; ++done) {
    const Action action = *stage.next();
    CHECK_FALSE(stage.is_early());
    stage.completed(action);
  }
  CHECK(stage.waits_for_verdict());
  return stage;
}

const Action early_f0{ActionKind::forward, 0, 0}, f1{ActionKind::forward, 0, 1}, v{ActionKind::preview, 0, -1},
    o{ActionKind::optimizer, 0, -1};

}  // namespace

TEST_CASE("forwards of the coming step follow a preview, and a verdict that confirms it keeps them") {
  StageProtocol stage = before_the_verdict();
  CHECK(next_early(stage) == "V");
  CHECK_FALSE(stage.is_early());
  CHECK(next_early(stage) == "F0");
  CHECK(stage.is_early());
  CHECK(next_early(stage).empty());  // two are running
  stage.completed(v);
  CHECK_FALSE(stage.verdict(true, true));
  CHECK(next_early(stage) == "O");
  CHECK(stage.step_of(early_f0) == StepOf::coming);
  CHECK(stage.running() == std::vector<Action>{o, early_f0});
  stage.completed(early_f0);
  CHECK(next_early(stage) == "F1");
  CHECK(stage.is_early());
  CHECK_FALSE(stage.step_done());
  stage.completed(o);
  CHECK(stage.step_done());
  CHECK(next_early(stage).empty());  // backwards wait for the step
  stage.begin_step();
  CHECK(next_early(stage) == "B0");
  CHECK(stage.step_of(f1) == StepOf::running);
}

TEST_CASE("another verdict takes early forwards back, which run again once they have completed") {
  for (const bool apply : {true, false}) {
    StageProtocol stage = before_the_verdict();
    for (const char* text : {"V", "F0"}) CHECK(next_early(stage) == text);
    stage.completed(v);
    CHECK(next_early(stage) == "F1");
    CHECK(stage.verdict(apply, !apply));  // an update that is not applied confirms nothing
    CHECK(next_early(stage).empty());
    CHECK(stage.step_of(f1) == StepOf::taken_back);
    stage.completed(early_f0);
    if (apply) {
      CHECK(next_early(stage) == "O");
      stage.completed(o);
    }
    CHECK(next_early(stage).empty());
    CHECK_FALSE(stage.step_done());
    stage.completed(f1);
    for (const char* text : {"F0", "F1"}) CHECK(next_early(stage) == text);
    CHECK(stage.step_done());
    CHECK(stage.step_of(f1) == StepOf::coming);
  }
}

TEST_CASE("a stage that hears the verdict first needs no preview, nor one that is to wait for it") {
  StageProtocol stage = before_the_verdict(), waiting = before_the_verdict(2, NextStep::after_verdict);
  CHECK(next_early(waiting).empty());
  for (StageProtocol* one : {&stage, &waiting}) {
    CHECK(one->verdict(true, false));
    for (const char* text : {"O", "F0"}) CHECK(next_early(*one) == text);
  }
}

TEST_CASE("an activation that is taken back arrives again") {
  const auto plan = std::make_shared<const Plan>(with_end_of_step(build_schedule("1f1b", {2, 1, 1}), {}));
  StageProtocol stage(plan, 1, Order::planned);
  stage.credit_returned(InputKind::gradient, 0);
  stage.begin_step(StepKind::training, nullptr, NextStep::at_once);
  for (const auto kind : {InputKind::activation, InputKind::target}) stage.input_arrived(kind, 0, 0);
  for (const auto kind : {InputKind::activation, InputKind::target})  // nothing was launched yet
    CHECK(stage.input_arrived(kind, 0, 0) == StepOf::coming);
  CHECK_THROWS_AS(stage.input_arrived(InputKind::activation, 0, 0), std::logic_error);
  for (const char* text : {"F0", "B0", "N", "V"}) {
    const Action action = *stage.next();
    CHECK(to_string(action) == text);
    stage.completed(action);
  }
  CHECK(stage.verdict(false));
  stage.input_taken_back(0, 0);
  CHECK_THROWS_AS(stage.input_taken_back(0, 0), std::logic_error);
  CHECK(next_early(stage).empty());
  CHECK(stage.input_arrived(InputKind::activation, 0, 0) == StepOf::coming);
  CHECK(next_early(stage) == "F0");
}

TEST_CASE("a step that was not announced cannot follow early forwards, and only planned steps of training are followed") {
  StageProtocol stage = before_the_verdict();
  for (const char* text : {"V", "F0"}) CHECK(next_early(stage) == text);
  for (const Action& action : {v, early_f0}) stage.completed(action);
  stage.verdict(true, true);
  CHECK(next_early(stage) == "O");
  CHECK_THROWS_AS(stage.begin_step(StepKind::evaluation), std::logic_error);

  const auto plan = std::make_shared<const Plan>(with_end_of_step(build_schedule("1f1b", {2, 1, 4}), {}));
  StageProtocol ready(plan, 0, Order::ready), planned(plan, 0, Order::planned);
  CHECK_THROWS_AS(ready.begin_step(StepKind::training, nullptr, NextStep::at_once), std::invalid_argument);
  CHECK_THROWS_AS(planned.begin_step(StepKind::evaluation, nullptr, NextStep::at_once), std::invalid_argument);
  CHECK_THROWS_AS(planned.begin_step(StepKind::training, &plan->stages[0], NextStep::at_once), std::invalid_argument);
}

TEST_CASE("at any speed of stages and messages, with any verdicts, steps that begin early run every action once") {
  std::mt19937 random(11);
  const auto any = [&](std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); };
  int previews = 0, takes_back = 0;
  for (const auto& schedule : all_schedules()) {
    for (const int stages : {1, 2, 4}) {
      for (int round = 0; round < 6; ++round) {
        const int microbatches = 1 + static_cast<int>(any(8)), steps = 5;
        const auto plan = std::make_shared<const Plan>(
            with_end_of_step(build_schedule(schedule.name, {stages, schedule.default_chunks, microbatches}), {}));
        PipelineDriver driver(plan, Order::planned, validate(*plan, Order::planned, life), 1 + round % 3, life);
        INFO(schedule.name << " pp " << stages << " m " << microbatches << " round " << round);
        driver.keeps_outputs = round % 2 == 1;
        std::vector<bool> applied;
        for (int step = 1; step <= steps; ++step) {
          driver.begin_step(StepKind::training, step < steps ? NextStep::at_once : NextStep::unknown);
          driver.applies = any(4) != 0;
          driver.confirms = any(2) != 0;
          applied.push_back(driver.applies);
          // The next step begins as soon as this one is over, whatever is still in flight.
          while (driver.norms() < stages || !driver.all_done()) {
            const auto keys = driver.deliverable();
            if (keys.empty()) FAIL(driver.report());
            driver.deliver(keys[any(keys.size())]);
          }
        }
        driver.run(any);
        for (int stage = 0; stage < stages; ++stage)
          for (int step = 1; step <= steps; ++step) {
            std::string expected = list_text(*plan, stage) + " ";
            if (!applied[static_cast<std::size_t>(step - 1)]) expected.resize(expected.size() - 2);
            // O follows the actions that were launched early, which count for the next step.
            CHECK(driver.standing[{stage, step}] == expected);
          }
        previews += driver.previews;
        takes_back += driver.takes_back;
      }
    }
  }
  CHECK(previews > 100);
  CHECK(takes_back > 100);
}
