// Simulations through the C API.
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "bindings/c_support.hpp"
#include "catch.hpp"

using namespace pipetrain::test;

namespace {

TimelineOwner simulate(const pipetrain_plan* plan, const pipetrain_costs* costs = nullptr,
                       const pipetrain_simulation* simulation = nullptr) {
  pipetrain_timeline* timeline = nullptr;
  pipetrain_simulate(plan, costs, simulation, &timeline);
  return TimelineOwner(timeline);
}

double makespan(const TimelineOwner& timeline) {
  auto summary = sized<pipetrain_summary>();
  REQUIRE(pipetrain_timeline_summary(timeline.get(), &summary) == PIPETRAIN_OK);
  return summary.makespan;
}

std::string draw(const TimelineOwner& timeline, int format) {
  return text_of([&](char* text, std::size_t capacity, std::size_t* length) {
    return pipetrain_timeline_draw(timeline.get(), format, 0, text, capacity, length);
  });
}

}  // namespace

TEST_CASE("simulated makespans are those of the formulas of the schedules") {
  const int p = 4, m = 8;  // F = I = W = 1; docs/schedules.md
  CHECK(makespan(simulate(build_plan("gpipe", p, m).get())) == 3 * m + 3 * (p - 1));
  CHECK(makespan(simulate(build_plan("1f1b", p, m).get())) == 3 * m + 3 * (p - 1));
  CHECK(makespan(simulate(build_plan("zb-h1", p, m).get())) == 3 * m + (p - 1));
}

TEST_CASE("costs go to their stages, edges and ends of step") {
  const std::vector<double> forward{1, 2}, optimizer{5, 5};
  auto costs = sized<pipetrain_costs>();
  costs.stages = 2;
  costs.forward = forward.data();
  const auto plan = build_plan("1f1b", 2, 1);
  CHECK(makespan(simulate(plan.get(), &costs)) == 1 + 2 + 2 + 2);
  costs.optimizer = optimizer.data();
  const double latency = 10;
  costs.edges = 1;
  costs.latency = &latency;
  pipetrain_plan* ended = nullptr;
  REQUIRE(pipetrain_plan_with_end(plan.get(), 0, 0, 0, &ended) == PIPETRAIN_OK);
  const PlanOwner owner(ended);
  CHECK(makespan(simulate(ended, &costs)) == 1 + 10 + 2 + 2 + 10 + 2 + 5);
}

TEST_CASE("spans say what an action waited for, and summaries add up") {
  const auto timeline = simulate(build_plan("1f1b", 2, 2).get());
  std::size_t spans = 0;
  REQUIRE(pipetrain_timeline_length(timeline.get(), 1, &spans) == PIPETRAIN_OK);
  REQUIRE(spans == 4);
  auto span = sized<pipetrain_span>();
  REQUIRE(pipetrain_timeline_span(timeline.get(), 1, 0, &span) == PIPETRAIN_OK);
  CHECK(span.action.kind == PIPETRAIN_F);
  CHECK(span.waited_for == PIPETRAIN_WAITED_ACTIVATION);
  CHECK(span.start == 1);
  auto stage = sized<pipetrain_stage_summary>();
  REQUIRE(pipetrain_timeline_stage(timeline.get(), 0, &stage) == PIPETRAIN_OK);
  CHECK(stage.busy + stage.idle == makespan(timeline));
  CHECK(stage.peak_activations == 2);
}

TEST_CASE("jitter is drawn from its seed") {
  const auto plan = build_plan("1f1b", 3, 5);
  auto simulation = sized<pipetrain_simulation>();
  simulation.jitter = 0.2;
  simulation.seed = 7;
  const double once = makespan(simulate(plan.get(), nullptr, &simulation));
  CHECK(makespan(simulate(plan.get(), nullptr, &simulation)) == once);
  simulation.seed = 8;
  CHECK(makespan(simulate(plan.get(), nullptr, &simulation)) != once);
}

TEST_CASE("timelines are drawn in every format") {
  const auto timeline = simulate(build_plan("zb-v", 4, 6).get());
  CHECK(draw(timeline, PIPETRAIN_TERMINAL).find("F") != std::string::npos);
  CHECK(draw(timeline, PIPETRAIN_SVG).find("<svg") != std::string::npos);
  CHECK(draw(timeline, PIPETRAIN_HTML).find("<html") != std::string::npos);
  CHECK(draw(timeline, PIPETRAIN_CHROME_TRACE).find("\"ph\"") != std::string::npos);
  CHECK(draw(timeline, PIPETRAIN_CSV).rfind("stage,action", 0) == 0);
}

TEST_CASE("impossible costs are refused by name") {
  const auto plan = build_plan("1f1b", 4, 4);
  const std::vector<double> three{1, 1, 1}, wrong{1, -1, 1, 1}, nan(4, std::numeric_limits<double>::quiet_NaN());
  auto costs = sized<pipetrain_costs>();
  costs.forward = three.data();
  CHECK(!simulate(plan.get(), &costs));
  CHECK(error_has("costs.stages"));
  costs.stages = 3;
  CHECK(!simulate(plan.get(), &costs));
  CHECK(error_has("give 1 for all, or 4"));
  costs.stages = 4;
  costs.forward = wrong.data();
  CHECK(!simulate(plan.get(), &costs));
  CHECK(error_has("stage 1"));
  costs.forward = nan.data();
  CHECK(!simulate(plan.get(), &costs));
  CHECK(error_has("costs.forward"));
}

TEST_CASE("custom actions take the times given by number, and costs of an older header are read") {
  const auto plan =
      parse_plan("microbatches: 1\ncustom X0: a\ncustom X1: b after 0:X0\nstage 0: X0 F0 B0\nstage 1: F0 B0 X1\n");
  const std::vector<double> times{4, 2};
  auto costs = sized<pipetrain_costs>();
  costs.customs = 2;
  costs.custom = times.data();
  CHECK(makespan(simulate(plan.get(), &costs)) == 4 + 2 + 2 + 2);
  costs.customs = 3;
  CHECK_FALSE(simulate(plan.get(), &costs));
  CHECK(error_has("costs.customs: 3; the plan has 2"));
  costs.struct_size = offsetof(pipetrain_costs, customs);
  CHECK(makespan(simulate(plan.get(), &costs)) == 1 + 1 + 2 + 2);
  --costs.struct_size;
  CHECK_FALSE(simulate(plan.get(), &costs));
}
