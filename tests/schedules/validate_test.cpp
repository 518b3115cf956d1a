#include "schedules/plan/validate.hpp"

#include <rapidcheck.h>

#include <cstdlib>
#include <ostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"
#include "tests/schedules/pipeline_driver.hpp"

namespace pipetrain::schedules {
// Shows a counterexample of rapidcheck.
static void showValue(const Action& action, std::ostream& out) { out << to_string(action, 2); }
}  // namespace pipetrain::schedules

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

Action act(std::string_view text) { return parse_action(text).value(); }

std::string plan_fault(const Plan& plan) {
  try {
    validate(plan);
  } catch (const InvalidPlan& error) {
    return error.fault();
  }
  return "";
}

// Returns a slot for every microbatch in every queue.
std::vector<StageNeeds> all_slots(const Plan& plan) {
  std::vector<StageNeeds> needs(plan.stages.size());
  for (int stage = 0; stage < plan.placement.stages(); ++stage)
    for (int c = 0; c < plan.placement.chunks(); ++c) {
      const bool is_last = plan.placement.is_last({stage, c});
      needs[static_cast<std::size_t>(stage)].chunks.push_back(
          {plan.microbatches, is_last ? 0 : plan.microbatches, is_last ? plan.microbatches : 0, 0, 0});
    }
  return needs;
}

Plan two_stages() { return with_end_of_step(build_schedule("1f1b", {2, 1, 3}), {true, false, true}); }

}  // namespace

TEST_CASE("1f1b holds p - stage microbatches and needs the slots that keep it busy") {
  const auto needs = validate(build_schedule("1f1b", {4, 1, 8}));
  for (int stage = 0; stage < 4; ++stage) {
    const ChunkNeeds& chunk = needs[static_cast<std::size_t>(stage)].chunks[0];
    CHECK(chunk.peak_activations == 4 - stage);
    CHECK(needs[static_cast<std::size_t>(stage)].peak_activations == 4 - stage);
    CHECK(chunk.peak_pending_weight_grads == 0);
    CHECK((chunk.gradient_slots == 0) == (stage == 3));
    CHECK((chunk.target_slots == 0) == (stage != 3));
    CHECK(chunk.activation_slots >= 4 - stage);      // each is kept until its backward
    CHECK(chunk.activation_slots <= 4 - stage + 2);  // and at most those in flight are added
  }
}

TEST_CASE("gpipe holds every microbatch, and a copied input frees its slot early") {
  const Plan plan = build_schedule("gpipe", {3, 1, 6});
  for (const auto& stage : validate(plan)) CHECK(stage.peak_activations == 6);
  const auto copied = validate(plan, Order::planned, {ActionKind::forward, ActionKind::weight_grad});
  CHECK(copied[1].chunks[0].activation_slots <= 3);
}

TEST_CASE("one stage needs only what its feeders fill") {
  const auto needs = validate(build_schedule("1f1b", {1, 1, 4}));
  CHECK(needs[0].chunks[0].activation_slots == 3);  // one in use, one launched ahead, one in flight
  CHECK(needs[0].chunks[0].target_slots == 3);
  CHECK(needs[0].chunks[0].gradient_slots == 0);
}

TEST_CASE("a dropped, doubled or misplaced action is named") {
  CHECK(plan_fault(two_stages()).empty());
  Plan plan = two_stages();  // stage 0: F0 F1 B0 F2 B1 B2 R T N O
  plan.stages[0].erase(plan.stages[0].begin() + 3);
  CHECK_THAT(plan_fault(plan), Contains("stage 0") && Contains("F2"));
  plan = two_stages();
  plan.stages[1].insert(plan.stages[1].begin() + 3, act("B0"));
  CHECK_THAT(plan_fault(plan), Contains("stage 1") && Contains("B0 comes twice"));
  plan = two_stages();
  std::swap(plan.stages[0][0], plan.stages[0][1]);
  CHECK(plan_fault(plan) == "stage 0: F1 comes before F0; a chunk must keep the order of microbatches");
  plan = two_stages();
  std::swap(plan.stages[1][0], plan.stages[1][1]);
  CHECK(plan_fault(plan) == "stage 1: B0 comes before F0");
  plan = two_stages();
  plan.stages[0][2] = act("I0");
  CHECK_THAT(plan_fault(plan), Contains("W0 is missing"));
  plan = two_stages();
  plan.stages[0][2] = act("W0");
  CHECK_THAT(plan_fault(plan), Contains("W0 comes before I0"));
  plan = two_stages();
  plan.stages[0].push_back(act("F3"));
  CHECK_THAT(plan_fault(plan), Contains("F3"));
  plan = two_stages();
  plan.stages[0][0] = act("1F0");
  CHECK_THAT(plan_fault(plan), Contains("1 chunk(s)"));
}

TEST_CASE("the end of the step is checked too") {
  Plan plan = two_stages();
  plan.stages[0].pop_back();
  CHECK_THAT(plan_fault(plan), Contains("O occurs 1 times") && Contains("2 times"));
  plan = two_stages();
  plan.stages[0].erase(plan.stages[0].begin() + 6);
  CHECK_THAT(plan_fault(plan), Contains("R occurs 1 times"));
  plan = two_stages();
  std::swap(plan.stages[0][8], plan.stages[0][9]);
  CHECK(plan_fault(plan) == "stage 0: O comes before N, which the verdict needs");
  plan = two_stages();
  std::swap(plan.stages[0][5], plan.stages[0][6]);
  CHECK_THAT(plan_fault(plan), Contains("R comes, but B2 has not come before it"));
  plan = two_stages();
  std::swap(plan.stages[0][7], plan.stages[0][8]);
  CHECK_THAT(plan_fault(plan), Contains("T comes after N"));
  Plan middle = with_end_of_step(build_schedule("1f1b", {3, 1, 1}), {});
  middle.stages[1].insert(middle.stages[1].begin() + 2, act("T"));
  CHECK_THAT(plan_fault(middle), Contains("neither the first nor the last"));
  // A stage with both ends of the model adds their gradients at its T: both must exist.
  Plan both = with_end_of_step(build_schedule("zb-v", {1, 2, 1}), {false, false, true});
  CHECK(plan_fault(both).empty());
  std::swap(both.stages[0][5], both.stages[0][6]);
  CHECK_THAT(plan_fault(both), Contains("T comes, but") && Contains("has not come before it"));
  both = with_end_of_step(build_schedule("zb-v", {2, 2, 1}), {false, false, true});
  both.stages[0].insert(both.stages[0].end() - 2, act("1T"));
  CHECK_THAT(plan_fault(both), Contains("stage 0: 1T is one too many") && Contains("at 0T"));
}

TEST_CASE("sums at the end of a step keep their order, which is part of the result") {
  for (const auto& [stage, wrong, fault] :
       {std::tuple{0, "S R T", "R comes after S of its chunk"}, std::tuple{0, "R T S", "S comes after T"},
        std::tuple{2, "T R S", "R comes after T"}}) {
    Plan plan = with_end_of_step(build_schedule("1f1b", {3, 1, 1}), {true, true, true});
    auto& list = plan.stages[static_cast<std::size_t>(stage)];  // F0 B0 R S T N O
    const std::string order = wrong;
    for (std::size_t i = 0; i < 3; ++i) list[2 + i] = act(order.substr(2 * i, 1));
    INFO(wrong);
    CHECK_THAT(plan_fault(plan), Contains(fault));
  }
}

TEST_CASE("a sum of tied weights amid compute is proved like any other action") {
  Plan plan{"hand", Placement::looping(2, 2), 1, {}, ReadyRule::none};
  const auto list = [](const std::string& text) {
    std::vector<Action> actions;
    std::istringstream words(text);
    for (std::string word; words >> word;) actions.push_back(act(word));
    return actions;
  };
  // Stage 1 holds the head: it reaches T before its first chunk's B, which stage 0 needs before it can reach T.
  plan.stages = {list("0F0 1F0 1B0 0B0 0T N O"), list("0F0 1F0 1B0 1T 0B0 N O")};
  CHECK_THAT(plan_fault(plan), Contains("deadlocks") && Contains("stage 1 1T waits for T of stage 0") &&
                                   Contains("stage 0 0B0 waits for its gradient from stage 1"));
  plan.stages[1] = list("0F0 1F0 1B0 0I0 1T 0W0 N O");  // the half that nobody waits for may come after it
  CHECK(plan_fault(plan).empty());
  const Timeline timeline = simulate(plan, Costs::uniform(plan.placement, 2, 2, 2));
  CHECK(timeline.stages[1][4].start == timeline.stages[0][3].end);
  CHECK(timeline.stages[1][5].start == timeline.stages[1][4].end);
}

TEST_CASE("lists that are fine alone but wait for each other are found, with the place on the grid") {
  Plan plan{"hand", Placement::looping(2, 1), 2, {}, ReadyRule::none};
  plan.stages = {{act("F0"), act("B0"), act("F1"), act("B1")}, {act("F0"), act("F1"), act("B0"), act("B1")}};
  try {
    validate(plan);
    FAIL("no deadlock found");
  } catch (const InvalidPlan& error) {
    CHECK_THAT(error.fault(), Contains("deadlocks") && Contains("stage 0 B0 waits for its gradient from stage 1") &&
                                  Contains("stage 1 F1 waits for its activation from stage 0"));
    CHECK_THAT(error.what(), Contains("[B0]") && Contains("[F1]"));
  }
}

TEST_CASE("too few slots are proven to stop a plan") {
  const Plan plan = build_schedule("gpipe", {2, 1, 4});
  auto needs = validate(plan);
  CHECK(needs[1].chunks[0].activation_slots == 4);
  --needs[1].chunks[0].activation_slots;  // every activation stays until its backward, and those come after all forwards
  CHECK_THROWS_WITH(check_progress(plan, needs), Contains("free activation slot at stage 1"));
}

// More than rapidcheck's hundred cases each, unless the user sets another number.
[[maybe_unused]] const int rapidcheck_settings = ::setenv("RC_PARAMS", "max_success=1000", 0);

// A small plan of some schedule, and one of its lists.
struct SomePlan {
  Plan plan;
  std::size_t stage;
};

SomePlan some_plan(int most_stages, const EndOfStep& end) {
  std::vector<std::string> known;  // auto is slow to build, and adds nothing here
  for (const ScheduleInfo& info : all_schedules())
    if (!info.uses_costs) known.emplace_back(info.name);
  const ScheduleInfo& info = *find_schedule(*rc::gen::elementOf(known).as("schedule"));
  const int stages = *rc::gen::inRange(1, most_stages + 1).as("stages");
  const int microbatches = *rc::gen::inRange(1, 8).as("microbatches");
  Plan plan = with_end_of_step(info.build({stages, info.default_chunks, microbatches}), end);
  return {std::move(plan), *rc::gen::inRange<std::size_t>(0, static_cast<std::size_t>(stages)).as("stage")};
}

EndOfStep some_end() {
  return {*rc::gen::arbitrary<bool>().as("R"), *rc::gen::arbitrary<bool>().as("S"), *rc::gen::arbitrary<bool>().as("T")};
}

TEST_CASE("a dropped action is always caught, and named by its letter") {
  CHECK(rc::check([] {
    auto [plan, stage] = some_plan(5, some_end());
    auto& list = plan.stages[stage];
    const auto at = *rc::gen::inRange<std::size_t>(0, list.size()).as("dropped");
    const Action dropped = list[at];
    // The only action of the end of step that may be missing as a whole.
    const bool one_t = tied_sum_places(plan.placement).size() == 1;
    RC_PRE(is_compute(dropped.kind) || (dropped.kind == ActionKind::sum_tied ? !one_t : plan.placement.stages() > 1));
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    RC_ASSERT(plan_fault(plan).find(letter(dropped.kind)) != std::string::npos);
  }));
}

TEST_CASE("a doubled action is always caught, and named by its letter") {
  CHECK(rc::check([] {
    auto [plan, stage] = some_plan(5, some_end());
    auto& list = plan.stages[stage];
    const Action doubled = *rc::gen::elementOf(list).as("doubled");
    const auto to = *rc::gen::inRange<std::size_t>(0, list.size() + 1).as("to");
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(to), doubled);
    RC_ASSERT(plan_fault(plan).find(letter(doubled.kind)) != std::string::npos);
  }));
}

TEST_CASE("actions of one row that are swapped are always caught, and one of them is named") {
  CHECK(rc::check([] {
    auto [plan, stage] = some_plan(5, some_end());
    auto& list = plan.stages[stage];
    const Action one = *rc::gen::elementOf(list).as("one");
    std::vector<std::size_t> row;
    for (std::size_t at = 0; at < list.size(); ++at)
      if (list[at].kind == one.kind && list[at].chunk == one.chunk) row.push_back(at);
    RC_PRE(row.size() > 1);
    const auto a = *rc::gen::elementOf(row).as("one of them"), b = *rc::gen::elementOf(row).as("the other");
    RC_PRE(a != b);
    std::swap(list[a], list[b]);
    const int chunks = plan.placement.chunks();
    const std::string fault = plan_fault(plan);
    RC_ASSERT(fault.find(to_string(list[a], chunks)) != std::string::npos ||
              fault.find(to_string(list[b], chunks)) != std::string::npos);
  }));
}

TEST_CASE("swapped actions are caught exactly when they matter") {
  std::mt19937 random(11);
  int accepted = 0, deadlocks = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto& info = all_schedules()[random() % all_schedules().size()];
    if (info.uses_costs) continue;
    const int stages = 2 + static_cast<int>(random() % 3), microbatches = 2 + static_cast<int>(random() % 5);
    auto plan = std::make_shared<Plan>(info.build({stages, info.default_chunks, microbatches}));
    auto& list = plan->stages[random() % plan->stages.size()];
    const std::size_t a = random() % list.size(), b = std::min(list.size() - 1, a + 1 + random() % 4);
    const Action first = list[a], second = list[b];
    if (first == second) continue;
    std::swap(list[a], list[b]);
    CAPTURE(info.name, stages, microbatches, to_string(first, 2), to_string(second, 2));
    try {
      // An accepted plan finishes with the proven slots, and one that is refused as a deadlock does not finish even
      // with all slots.
      const auto needs = validate(*plan);
      PipelineDriver driver(plan, Order::planned, needs);
      driver.begin_step();
      driver.run([&](std::size_t n) { return random() % n; });
      REQUIRE(driver.all_done());
      REQUIRE_FALSE((first.kind == second.kind && first.chunk == second.chunk));
      ++accepted;
    } catch (const InvalidPlan& error) {
      if (error.fault().find("deadlocks") == std::string::npos) continue;
      PipelineDriver driver(plan, Order::planned, all_slots(*plan));
      driver.begin_step();
      driver.run([&](std::size_t n) { return random() % n; });
      REQUIRE_FALSE(driver.all_done());
      ++deadlocks;
    }
  }
  CHECK(accepted > 100);
  CHECK(deadlocks > 10);
}

TEST_CASE("the forwards of every plan come to their end with the slots of the whole, in both orders") {
  for (const ScheduleInfo& info : all_schedules()) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      if (info.uses_costs || (chunks != info.default_chunks && !info.chunks_can_vary)) continue;
      for (int stages = 1; stages <= 8; ++stages) {
        for (const int microbatches : {1, 2, 3, 5, 8, 13, 24}) {
          const Plan plan = with_end_of_step(info.build({stages, chunks, microbatches}), {});
          INFO(info.name << " p=" << stages << " v=" << chunks << " m=" << microbatches);
          for (const auto order : {Order::planned, Order::ready}) {
            if (order == Order::ready && !info.has_ready_rule) continue;
            REQUIRE_NOTHROW(check_progress(forward_pass(plan), validate(plan, order), {ActionKind::forward}));
          }
        }
      }
    }
  }
}

TEST_CASE("every shape of every schedule is valid") {
  for (const ScheduleInfo& info : all_schedules())
    for (int chunks = 1; chunks <= 4; ++chunks)
      for (int stages = 1; stages <= 8; ++stages)
        for (int microbatches = 1; microbatches <= 24; ++microbatches) {
          if ((chunks != info.default_chunks && !info.chunks_can_vary) || info.uses_costs) continue;
          const Plan plan = info.build({stages, chunks, microbatches});
          REQUIRE_NOTHROW(validate(plan));
          REQUIRE((plan.ready_rule != ReadyRule::none) == info.has_ready_rule);
          if (info.has_ready_rule) REQUIRE_NOTHROW(validate(plan, Order::ready));
        }
}

TEST_CASE("ready needs a rule, and a slot's life must make sense") {
  Plan plan = build_schedule("1f1b", {2, 1, 2});
  CHECK_THROWS_AS(validate(plan, Order::planned, {ActionKind::norm, ActionKind::weight_grad}), std::invalid_argument);
  CHECK_THROWS_AS(validate(plan, Order::planned, {ActionKind::input_grad, ActionKind::forward}), std::invalid_argument);
  plan.ready_rule = ReadyRule::none;
  CHECK_THROWS_AS(validate(plan, Order::ready), std::invalid_argument);
}
