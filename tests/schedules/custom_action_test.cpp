// Actions that the engine does not know are read, refused, proved, simulated and run like all others.
#include <memory>
#include <random>
#include <string>

#include "catch.hpp"
#include "pipeline_driver.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

const std::string head = "schedule: mine\nplacement: looping\nchunks: 1\nmicrobatches: 2\n";
const std::string customs =
    "custom X0: prefetch\n"
    "custom X1: send-stats after 0:X0 0:B0 uses nic\n"
    "custom X2: send-stats after 1:F1 uses nic bus\n";
const std::string lists =
    "stage 0: X0 F0 F1 B0 X2 B1 N O\n"
    "stage 1: F0 B0 F1 X1 B1 N O\n";

Plan plan_of(const std::string& text) { return parse_plan(text, "plan.txt"); }

std::string custom_error(const std::string& text) {
  try {
    plan_of(text);
  } catch (const PlanFileError& error) {
    return error.what();
  }
  return "";
}

Costs custom_costs(const Plan& plan, std::vector<double> custom) {
  Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
  costs.custom = std::move(custom);
  return costs;
}

// Returns "X0 0-0.5" for the times of custom actions.
std::string customs_in(const Timeline& timeline) {
  std::string text;
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (is_custom(span.action.kind)) {
        char times[64];
        std::snprintf(times, sizeof times, " %g-%g ", span.start, span.end);
        text += to_string(span.action) + times;
      }
  return text;
}

}  // namespace

TEST_CASE("custom actions survive the way to text and back") {
  const Plan plan = plan_of(head + customs + lists);
  REQUIRE(plan.custom.size() == 3);
  CHECK(plan.custom[0] == CustomAction{"prefetch", 0, {}, {}});
  CHECK(plan.custom[1] ==
        CustomAction{"send-stats", 1, {{0, {ActionKind::custom, 0, 0}}, {0, {ActionKind::backward, 0, 0}}}, {"nic"}});
  CHECK(plan.custom[2].resources == std::vector<std::string>{"nic", "bus"});
  CHECK(to_text(plan) == head + customs + lists);
  CHECK(parse_action("X12") == Action{ActionKind::custom, 0, 12});
  CHECK_FALSE(parse_action("X"));
  CHECK_FALSE(parse_action("1X2"));
  CHECK_THROWS_AS(to_pytorch_csv(plan), std::invalid_argument);
}

TEST_CASE("custom actions must be possible, and a wrong one is named") {
  CHECK_THAT(custom_error(head + lists), Contains("stage 0: X0 is a custom action that the plan does not name"));
  CHECK_THAT(custom_error(head + customs + "custom X4: late\n" + lists), Contains("custom X3 is expected here, not \"X4\""));
  CHECK_THAT(custom_error(head + "custom X0: a of 0:F0\n" + lists), Contains("\"of\" is neither \"after\" nor \"uses\""));
  CHECK_THAT(custom_error(head + "custom X0: a after F0\n" + lists),
             Contains("\"F0\" is not an action of a stage such as 0:F0"));
  CHECK_THAT(custom_error(head + "custom X0:\n" + lists), Contains("custom X0 has no name"));
  CHECK_THAT(custom_error(head + customs + "custom X3: lost\n" + lists), Contains("X3 (lost) is in no stage's list"));
  CHECK_THAT(custom_error(head + customs + "stage 0: X0 F0 F1 B0 X2 B1 N O\nstage 1: F0 B0 X1 F1 X1 B1 N O\n"),
             Contains("stage 1: X1 comes twice"));
  CHECK_THAT(custom_error(head + customs + "stage 0: X0 F0 F1 B0 X2 B1 N O\nstage 1: X0 F0 B0 F1 X1 B1 N O\n"),
             Contains("X0 is of stage"));
  CHECK_THAT(custom_error(head + "custom X0: a after 1:W0\nstage 0: X0 F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n"),
             Contains("X0 (a) is after 1:W0, which is not in the plan"));
  CHECK_THAT(custom_error(head + "custom X0: a after 0:F0\nstage 0: X0 F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n"),
             Contains("X0 (a) comes before 0:F0, which it waits for"));
  CHECK_THAT(
      custom_error(head + "custom X0: a uses nic\ncustom X1: b uses nic\nstage 0: X1 X0 F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n"),
      Contains("X1 (b) comes before 0:X0, which it waits for"));
  CHECK_THAT(custom_error(head + "ready: backward-first\n" + customs + lists), Contains("leave its rule out"));
  CHECK_THAT(custom_error(head + customs + "stage 0: X0 F0 F1 B0 X2 B1 N O\nstage 1: F0 B0 F1 B1 N O X1\n"),
             Contains("X1 comes after O"));
}

TEST_CASE("custom actions that wait for each other are a deadlock, and it is shown") {
  CHECK_THAT(custom_error(head + "custom X0: a after 1:F0\nstage 0: X0 F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n"),
             Contains("the plan deadlocks") && Contains("stage 0 X0 waits for F0 of stage 1") &&
                 Contains("stage 1 F0 waits for its activation from stage 0"));
  CHECK_THAT(custom_error(head + "custom X0: a uses nic\ncustom X1: b uses nic\n"
                                 "stage 0: F0 F1 B0 B1 X0\nstage 1: F0 X1 B0 F1 B1\n"),
             Contains("the plan deadlocks") && Contains("stage 1 X1 waits for X0 of stage 0"));
}

TEST_CASE("the simulator runs custom actions after what they are after, one holder of a resource at a time") {
  const Plan plan = plan_of(head + customs + lists);
  // Stage 0: X0 to 0.5, F0 to 1.5, F1 to 2.5, B0 from 4.5 (stage 1: F0 to 2.5, B0 to 4.5) to 6.5. X2 shares the nic
  // with X1, which follows B0 and ends at 9.5; F1 of stage 1 ended at 5.5.
  const Timeline timeline = simulate(plan, custom_costs(plan, {0.5, 3, 0.25}));
  CHECK(customs_in(timeline) == "X0 0-0.5 X2 9.5-9.75 X1 6.5-9.5 ");
  for (const auto& spans : timeline.stages)
    for (const Span& span : spans)
      if (is_custom(span.action.kind) && span.action.microbatch > 0) CHECK(span.waited_for == WaitedFor::partner);
  const auto path = critical_path(timeline);
  CHECK(timeline.stages[static_cast<std::size_t>(path.front().stage)][path.front().index].start == 0);
  CHECK_THROWS_AS(simulate(plan, custom_costs(plan, {1})), std::invalid_argument);
  CHECK(simulate(plan, custom_costs(plan, {})).stages[0].size() == 8);  // they take no time, and keep their places
  CHECK_THAT(draw_terminal(timeline, 120), Contains("X1"));
}

TEST_CASE("an evaluation leaves custom actions out") {
  const Plan forwards = forward_pass(plan_of(head + customs + lists));
  CHECK(forwards.custom.empty());
  CHECK(list_text(forwards, 0) == "F0 F1 N O");
}

TEST_CASE("stages with custom actions come to the end of every step, whichever message comes first") {
  const auto plan = std::make_shared<const Plan>(plan_of(head + customs + lists));
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    PipelineDriver driver(plan, Order::planned, validate(*plan));
    for (const StepKind kind : {StepKind::training, StepKind::evaluation, StepKind::training, StepKind::training}) {
      driver.begin_step(kind);
      driver.run([&](std::size_t below) { return random() % below; });
      INFO("seed " << seed << "\n" << driver.report());
      REQUIRE(driver.all_done());
    }
    CHECK_THAT(driver.traces[1], Contains("F1 X1 B1"));
  }
}

TEST_CASE("a stage that waits for a custom action says for which") {
  const auto plan = std::make_shared<const Plan>(
      plan_of(head + "custom X0: gather after 1:F0 1:X1\ncustom X1: b\nstage 0: F0 X0 F1 B0 B1\nstage 1: F0 X1 B0 F1 B1\n"));
  StageProtocol stage(plan, 0, Order::planned);
  const auto next = [&] {
    const Action* const action = stage.next();
    return action ? to_string(*action) : "";
  };
  stage.begin_step();
  for (int slot = 0; slot < 2; ++slot) stage.credit_returned(InputKind::activation, 0);
  stage.input_arrived(InputKind::activation, 0, 0);
  CHECK(next() == "F0");
  CHECK(stage.completed({ActionKind::forward, 0, 0}).empty());
  CHECK(next() == "");
  CHECK(stage.waiting_for() == "X0 (gather) waits for 1:F0 and 1:X1: 0 of 2 have come");
  stage.signalled(0);
  CHECK(next() == "");
  stage.signalled(0);
  CHECK_THROWS_WITH(stage.signalled(0), Contains("X0 (gather), which has all"));
  CHECK_THROWS_WITH(stage.signalled(1), Contains("X1 (b), which is not on this stage"));
  CHECK(next() == "X0");
}
