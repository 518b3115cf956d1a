// Plans whose microbatches pass in slices of their sequence: text, rules, builders and simulation.
#include <sstream>
#include <stdexcept>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/draw/draw.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/simulate.hpp"
#include "tests/schedules/pipeline_driver.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

Plan sliced(const std::string& name, int stages, int chunks, int microbatches, int slices) {
  return build_schedule(name, {stages, chunks, microbatches, slices});
}

std::string slices_fault(const std::string& lists, int slices = 2) {
  const std::string header =
      "schedule: hand\nplacement: looping\nchunks: 1\nmicrobatches: 2\nslices: " + std::to_string(slices);
  try {
    parse_plan(header + "\nstage 0: " + lists + "\n", "plan.txt");
  } catch (const PlanFileError& error) {
    return error.what();
  }
  return "";
}

Summary simulated_slices(const Plan& plan, double attention = 0) {
  Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
  costs.slices = plan.slices;
  for (auto& stage : costs.chunks)
    for (ChunkCost& chunk : stage) chunk.forward_attention = chunk.input_grad_attention = attention;
  return summarize(simulate(plan, costs, {.room = QueueRoom::all}));
}

}  // namespace

TEST_CASE("an action of a slice names the slice after a point") {
  const Action action{ActionKind::backward, 1, 3 * 4 + 2};
  CHECK(to_string(action, {2, 4}) == "1B3.2");
  CHECK(parse_action("1B3.2", 4) == action);
  CHECK(to_string({ActionKind::norm, 0, -1}, {1, 4}) == "N");
  CHECK(to_string({ActionKind::custom, 0, 3}, {1, 4}) == "X3");
  for (const char* text : {"F3", "F3.4", "F3.", "F.1", "F3.01", "F3.1.0", "F3.-1", "F2147483647.0", "X1.0", "N0.0"})
    CHECK_FALSE(parse_action(text, 4));
  CHECK_FALSE(parse_action("F3.1"));
}

TEST_CASE("plans with slices survive the way to text and back") {
  for (const int chunks : {1, 2})
    for (const int stages : {1, 2, 5})
      for (const int slices : {2, 3, 8}) {
        const std::string name = chunks == 1 ? "1f1b" : "interleaved";
        const Plan plan = with_end_of_step(sliced(name, stages, chunks, 3, slices), {true, stages > 1, true});
        const Plan read = parse_plan(to_text(plan), "plan.txt");
        CHECK(read.slices == slices);
        CHECK(read.microbatches == 3 * slices);
        CHECK(read.stages == plan.stages);
        CHECK(to_text(read) == to_text(plan));
      }
  const Plan plan = sliced("1f1b", 2, 1, 1, 2);
  CHECK_THAT(to_text(plan), Contains("microbatches: 1\nslices: 2\nstage 0: F0.0 F0.1 B0.1 B0.0\n"));
  CHECK_THAT(to_text(build_schedule("1f1b", {2, 1, 2})), !Contains("slices"));
  CHECK_THROWS_WITH(to_pytorch_csv(plan), Contains("no slices"));
}

TEST_CASE("impossible slices of a plan are refused with their location") {
  CHECK(slices_fault("F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0") == "");
  CHECK(slices_fault("F0.0 F0.1 I0.1 I0.0 W0.1 W0.0 F1.0 F1.1 B1.1 B1.0") == "");
  CHECK_THAT(slices_fault("F0.1 F0.0 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0"), Contains("F0.1 comes before F0.0"));
  CHECK_THAT(slices_fault("F0.0 F0.1 B0.0 B0.1 F1.0 F1.1 B1.1 B1.0"),
             Contains("B0.0 comes before B0.1") && Contains("F of their slices up and B, I and W down"));
  CHECK_THAT(slices_fault("F0.0 F0.1 I0.1 I0.0 W0.0 W0.1 F1.0 F1.1 B1.1 B1.0"), Contains("W0.0 comes before W0.1"));
  CHECK_THAT(slices_fault("F0.0 B0.1 F0.1 B0.0 F1.0 F1.1 B1.1 B1.0"), Contains("B0.1 comes before F0.1"));
  CHECK_THAT(slices_fault("F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1"), Contains("B1.0 is missing"));
  CHECK_THAT(slices_fault("F0.0 F0.1 P0.0 G0.0 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0"), Contains("P0.0 moves activations"));
  CHECK_THAT(slices_fault("F0 F1 B0 B1"), Contains("\"F0\" is not an action such as F0.1"));
  CHECK_THAT(slices_fault("F0.0 F0.1 B0.1 B0.0\nslices: 3"), Contains("slices"));
  Plan plan = sliced("1f1b", 2, 1, 2, 2);
  plan.ready_rule = ReadyRule::backward_first;
  CHECK_THROWS_WITH(validate(plan), Contains("there is no ready rule"));
  CHECK_THROWS_WITH(sliced("zb-h1", 2, 1, 2, 2), Contains("does not cut microbatches into slices"));
}

TEST_CASE("a stage holds a microbatch's slices and one more for each later stage") {
  for (const int stages : {1, 2, 4, 8})
    for (const int slices : {2, 4, 8}) {
      const Plan plan = sliced("1f1b", stages, 1, 2 * stages, slices);
      const auto needs = validate(plan);
      for (int stage = 0; stage < stages; ++stage) {
        const auto& chunk = needs[static_cast<std::size_t>(stage)].chunks.front();
        CHECK(chunk.peak_activations == slices + stages - 1 - stage);
        CHECK(simulated_slices(plan).stages[static_cast<std::size_t>(stage)].peak_activations ==
              Approx((slices + stages - 1.0 - stage) / slices));
      }
    }
}

TEST_CASE("plans with slices come to their end with the slots of validate() in whatever order messages come") {
  std::mt19937 random(11);
  for (const auto& [name, chunks] : {std::pair("1f1b", 1), {"interleaved", 2}, {"interleaved", 3}})
    for (const int stages : {1, 2, 3, 4})
      for (const int slices : {2, 3, 4, 7})
        for (const int microbatches : {1, 2, 5}) {
          const Plan plan = with_end_of_step(sliced(name, stages, chunks, microbatches, slices), {false, false, false});
          INFO(name << " " << stages << " stages, " << chunks << " chunks, " << microbatches << " x " << slices);
          const auto needs = validate(plan);
          CHECK_NOTHROW(check_progress(plan, needs));
          PipelineDriver driver(std::make_shared<const Plan>(plan), Order::planned, needs);
          driver.begin_step();
          driver.run([&](std::size_t choices) { return random() % choices; });
          CHECK(driver.all_done());
        }
}

TEST_CASE("slices shrink the bubble as many microbatches would, and growing attention costs some of that") {
  const double whole = simulated_slices(build_schedule("1f1b", {8, 1, 16})).bubble_fraction;
  double before = whole;
  for (const int slices : {2, 4, 8}) {
    const Plan plan = sliced("1f1b", 8, 1, 16, slices);
    const double bubble = simulated_slices(plan).bubble_fraction;
    CHECK(bubble == Approx(7.0 / (16 * slices + 7)));
    CHECK(bubble < before);
    before = bubble;
    CHECK(simulated_slices(plan, 0.5).bubble_fraction > bubble);
    CHECK(simulated_slices(plan, 0.5).bubble_fraction < whole);
    // The microbatch takes the same time as a whole.
    CHECK(simulated_slices(plan, 0.5).stages.front().busy == Approx(16 * 3));
  }
  CHECK(simulated_slices(sliced("interleaved", 8, 2, 16, 8)).bubble_fraction <
        simulated_slices(sliced("1f1b", 8, 1, 16, 8)).bubble_fraction);
}

TEST_CASE("drawings name slices") {
  const Plan plan = sliced("1f1b", 2, 1, 2, 2);
  Costs costs = of_slices(Costs::uniform(plan.placement, 1, 1, 1), 2);
  const Timeline timeline = simulate(plan, costs);
  CHECK(timeline.title == "1f1b, 2 stages, 2 microbatches of 2 slices");
  std::ostringstream csv, trace, svg, html;
  write_csv(csv, timeline);
  write_chrome_trace(trace, timeline);
  write_svg(svg, timeline);
  write_html(html, timeline, summarize(timeline));
  CHECK_THAT(csv.str(), Contains("chunk,microbatch,slice,start") && Contains("0,F1.0,F,0,1,0,"));
  CHECK_THAT(trace.str(), Contains("\"name\":\"B0.1\"") && Contains("\"microbatch\":0,\"slice\":1"));
  CHECK_THAT(svg.str(), Contains("<title>B1.1: "));
  CHECK_THAT(html.str(), Contains("\"slices\":2"));
  CHECK_THAT(draw_terminal(timeline, 120), Contains("B0.1"));
  CHECK_THROWS_AS(simulate(plan, Costs::uniform(plan.placement, 1, 1, 1)), std::invalid_argument);
}
