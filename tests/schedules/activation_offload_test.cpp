#include "schedules/plan/activation_offload.hpp"
#include "schedules/protocol/stage_protocol.hpp"

#include <algorithm>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

struct Case {
  const char* schedule;
  ScheduleShape shape;
};
const Case cases[] = {{"gpipe", {1, 1, 12}},       {"gpipe", {3, 1, 12}},     {"1f1b", {8, 1, 16}},  {"interleaved", {2, 4, 8}},
                      {"interleaved", {4, 2, 12}}, {"looped-bfs", {2, 3, 8}}, {"zb-h1", {8, 1, 16}}, {"zb-h2", {4, 1, 12}},
                      {"zb-v", {4, 2, 12}},        {"dualpipe-v", {4, 2, 12}}};

Plan compute_of(const Case& one) { return build_schedule(one.schedule, one.shape); }

int count_kind(const Plan& plan, ActionKind kind) {
  int all = 0;
  for (const auto& list : plan.stages)
    all += static_cast<int>(std::count_if(list.begin(), list.end(), [kind](const Action& one) { return one.kind == kind; }));
  return all;
}

std::string offload_fault(const std::string& list) {
  try {
    check_plan(parse_plan("placement: looping\nmicrobatches: 2\nstage 0: " + list + "\n", "plan"));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("moves come in pairs around what waits long, and leave the compute as it was") {
  for (const Case& one : cases) {
    INFO(one.schedule << ", " << one.shape.stages << " stages");
    const Plan compute = compute_of(one);
    for (const double fraction : {0.5, 0.8, 1.0}) {
      Plan moved = offload_activations(compute, fraction);
      CHECK(count_kind(moved, ActionKind::offload) > 0);
      CHECK(count_kind(moved, ActionKind::offload) == count_kind(moved, ActionKind::reload));
      CHECK(count_kind(moved, ActionKind::offload) <=
            fraction * one.shape.stages * compute.placement.chunks() * one.shape.microbatches + 1e-9);
      for (std::size_t stage = 0; stage < moved.stages.size(); ++stage) {
        auto list = moved.stages[stage];
        std::erase_if(list, [](const Action& action) { return is_move(action.kind); });
        CHECK(list == compute.stages[stage]);
      }
      moved = with_end_of_step(moved, {});
      CHECK_NOTHROW(validate(moved));
      const Plan read = parse_plan(to_text(moved), "plan");
      CHECK(read.stages == moved.stages);
      CHECK(forward_pass(moved).stages == forward_pass(with_end_of_step(compute, {})).stages);
    }
  }
}

TEST_CASE("offloaded activations take memory outside of the device, and none on it") {
  const Plan gpipe = build_schedule("gpipe", {1, 1, 16});
  CHECK(validate(gpipe).front().chunks.front().peak_activations == 16);
  const ChunkNeeds all = validate(offload_activations(gpipe, 1)).front().chunks.front();
  // For the last forwards and first backwards nothing moves; before, one is computed on and others are being moved out.
  CHECK(all.peak_activations <= 8);
  CHECK(all.peak_offloaded >= 9);
  const ChunkNeeds half = validate(offload_activations(gpipe, 0.5)).front().chunks.front();
  CHECK(half.peak_activations < 14);
  CHECK(half.peak_activations > all.peak_activations);
  CHECK(half.peak_offloaded <= 8);
  // The first stages of pipelines keep most, and the first chunks longest.
  for (const Case& one : cases) {
    INFO(one.schedule << ", " << one.shape.stages << " stages");
    const Plan compute = compute_of(one);
    const auto before = validate(compute), after = validate(offload_activations(compute, 1));
    double saved = 0;
    for (std::size_t stage = 0; stage < before.size(); ++stage) {
      CHECK(after[stage].peak_activations <= before[stage].peak_activations);
      saved = std::max(saved, before[stage].peak_activations - after[stage].peak_activations);
      for (std::size_t c = 0; c < before[stage].chunks.size(); ++c)
        CHECK(after[stage].chunks[c].activation_slots == before[stage].chunks[c].activation_slots);
    }
    CHECK(saved > 0);
  }
}

TEST_CASE("transfers as long as a forward and half a backward are overlapped with compute, and longer ones are not") {
  for (const Case& one : cases) {
    INFO(one.schedule << ", " << one.shape.stages << " stages");
    const Plan compute = with_end_of_step(compute_of(one), {}),
               moved = with_end_of_step(offload_activations(compute_of(one), 1), {});
    const auto seconds = [](const Plan& plan, double transfer) {
      Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
      for (auto& stage : costs.chunks)
        for (ChunkCost& chunk : stage) chunk.offload = chunk.reload = transfer / plan.placement.chunks();
      return summarize(simulate(plan, costs)).makespan;
    };
    const double plain = seconds(compute, 0);
    CHECK(seconds(moved, 0) == Approx(plain));
    CHECK(seconds(moved, 0.9) == Approx(plain));
    CHECK(seconds(moved, 30) > 1.5 * plain);
    double before = plain;
    for (const double transfer : {1.5, 3.0, 6.0, 12.0}) {
      CHECK(seconds(moved, transfer) >= before * (1 - 1e-12));
      before = seconds(moved, transfer);
    }
  }
}

TEST_CASE("moves of a simulation follow one another in each direction, and what they move is there when it is read") {
  for (const Case& one : cases) {
    const Plan plan = with_end_of_step(offload_activations(compute_of(one), 0.7), {});
    Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
    for (auto& stage : costs.chunks)
      for (ChunkCost& chunk : stage) chunk.offload = chunk.reload = 1.7 / plan.placement.chunks();
    const auto needs = validate(plan);
    const Timeline timeline = simulate(plan, costs, needs);
    REQUIRE(timeline.moves.size() == timeline.stages.size());
    const Summary summary = summarize(timeline);
    for (std::size_t stage = 0; stage < timeline.stages.size(); ++stage) {
      CHECK(summary.stages[stage].peak_activations <= needs[stage].peak_activations * plan.placement.chunks() + 1e-9);
      double out = 0, in = 0;
      for (const Span& move : timeline.moves[stage]) {
        double& busy = move.action.kind == ActionKind::offload ? out : in;
        CHECK(move.start >= busy);
        busy = move.end;
        for (const Span& span : timeline.stages[stage]) {
          if (span.action.chunk != move.action.chunk || span.action.microbatch != move.action.microbatch) continue;
          if (span.action.kind == ActionKind::forward) CHECK(span.end <= move.start);
          if (gives_input_grad(span.action.kind)) CHECK(span.start >= move.end);
        }
      }
    }
  }
}

TEST_CASE("plans that move what is not there, or too late, are refused with what is wrong") {
  CHECK(offload_fault("F0 P0 F1 G0 B0 B1") == "");
  CHECK_THAT(offload_fault("P0 F0 F1 G0 B0 B1"), Contains("P0 comes before F0"));
  CHECK_THAT(offload_fault("F0 P0 P0 F1 G0 B0 B1"), Contains("P0 comes twice"));
  CHECK_THAT(offload_fault("F0 G0 F1 B0 B1"), Contains("G0 comes before P0"));
  CHECK_THAT(offload_fault("F0 P0 G0 G0 F1 B0 B1"), Contains("G0 comes twice"));
  CHECK_THAT(offload_fault("F0 P0 G0 P0 F1 B0 B1"), Contains("P0 comes after G0"));
  CHECK_THAT(offload_fault("F0 P0 F1 B0 B1"), Contains("B0 comes before G0, and what it reads is outside"));
  CHECK_THAT(offload_fault("F0 F1 B0 P0 G0 B1"), Contains("P0 comes after the backward of its microbatch"));
  CHECK_THAT(offload_fault("F0 P2 F1 B0 B1"), Contains("P2: the plan has 2 microbatches"));
  CHECK_THAT(offload_fault("F0 P0 F1 G0 B0 B1\nready: plan-order"), Contains("leave out the plan's ready rule"));
  CHECK_THROWS_WITH(offload_activations(build_schedule("1f1b", {1, 1, 8}), 1), Contains("no activations wait long enough"));
  CHECK_THROWS_WITH(offload_activations(build_schedule("1f1b", {2, 1, 8}), 1), Contains("1f1b with 2 stages"));
  CHECK_THROWS_WITH(offload_activations(build_schedule("1f1b", {8, 1, 8, 4}), 1), Contains("slices stay on the device"));
  CHECK_THROWS_WITH(offload_activations(offload_activations(build_schedule("gpipe", {1, 1, 8}), 1), 1),
                    Contains("moves activations already"));
}

TEST_CASE("a move takes no part in running ahead") {
  const auto plan = std::make_shared<Plan>(parse_plan("microbatches: 4\nstage 0: F0 P0 F1 F2 F3 G0 B0 B1 B2 B3 N O\n", "plan"));
  StageProtocol stage(plan, 0, Order::planned);
  stage.begin_step();
  for (int m = 0; m < 4; ++m) stage.input_arrived(InputKind::activation, 0, m), stage.input_arrived(InputKind::target, 0, m);
  const auto launched = [&] {
    std::string all;
    while (const auto action = stage.next()) all += to_string(*action) + " ";
    return all;
  };
  CHECK(launched() == "F0 P0 F1 ");
  stage.completed(parse_action("F0").value());
  CHECK(launched() == "F2 ");
  stage.completed(parse_action("P0").value());
  CHECK(launched() == "");
  stage.completed(parse_action("F1").value());
  CHECK(launched() == "F3 G0 ");
}
