#include "schedules/search/auto_schedule.hpp"

#include <cmath>
#include <stdexcept>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/simulate/simulate.hpp"

using namespace pipetrain::schedules;

namespace {

Summary run_plan(const Plan& plan, const AutoRequest& request) {
  const auto all = [&](const std::vector<double>& values) {
    return values.size() == 1 ? std::vector<double>(static_cast<std::size_t>(request.stages), values[0]) : values;
  };
  Costs costs = Costs::per_stage(plan.placement, all(request.forward), all(request.input_grad), all(request.weight_grad));
  if (!request.edges.empty()) costs.set_edges(plan.placement, request.edges);
  return summarize(simulate(plan, costs));
}

AutoRequest auto_request(int stages, int microbatches, double slots) {
  AutoRequest request;
  request.stages = stages;
  request.microbatches = microbatches;
  request.slots = {slots};
  return request;
}

double most_held(const Summary& summary) {
  double most = 0;
  for (const auto& stage : summary.stages) most = std::max(most, stage.peak_activations);
  return most;
}

}  // namespace

TEST_CASE("auto is never worse than any other schedule that fits, and keeps the slots") {
  struct Times {
    double f, i, w;
  };
  for (const Times& t : {Times{1, 1, 1}, Times{18, 21, 11}})
    for (const int p : {1, 2, 4})
      for (const double slots : {1.0, p / 2.0 + 1, 1.0 * p, 2.0 * p - 1}) {
        AutoRequest request = auto_request(p, 10, slots);
        request.forward = {t.f}, request.input_grad = {t.i}, request.weight_grad = {t.w};
        request.edges.assign(static_cast<std::size_t>(p), {0.05 * t.f});
        const Plan plan = build_auto(request);
        const Summary found = run_plan(plan, request);
        CAPTURE(p, slots);
        CHECK_NOTHROW(validate(plan));
        CHECK(most_held(found) <= slots + 1e-9);
        for (const ScheduleInfo& info : all_schedules()) {
          if (info.uses_costs) continue;
          const Summary other = run_plan(info.build({p, info.default_chunks, 10}), request);
          CAPTURE(info.name);
          if (most_held(other) <= slots) CHECK(found.makespan <= other.makespan * (1 + 1e-9));
        }
      }
}

TEST_CASE("auto's plans are valid for every number of stages, in every order") {
  for (int stages = 1; stages <= 8; ++stages)
    for (int microbatches = 1; microbatches <= 24; ++microbatches)
      for (const int chunks : {1, 2})
        for (const double slots : {1.0, 1.0 * stages}) {
          AutoRequest request = auto_request(stages, microbatches, slots);
          request.max_chunks = chunks;
          request.forward = {1.5};
          request.edges.assign(static_cast<std::size_t>(stages), {0.1});
          const Plan plan = build_auto(request);
          CAPTURE(stages, microbatches, chunks, slots);
          REQUIRE(plan.stages.size() == static_cast<std::size_t>(stages));
          REQUIRE_NOTHROW(validate(plan));
          REQUIRE_NOTHROW(validate(plan, Order::ready));
        }
}

TEST_CASE("auto judges by costs that chunks do not share evenly where they are given") {
  AutoRequest request = auto_request(4, 12, 4);
  request.max_chunks = 2;
  request.costs = [](const Placement& placement) {
    Costs costs = Costs::uniform(placement, 1, 1, 1);
    for (auto& stage : costs.chunks)
      if (stage.size() == 2) stage[1].forward = 50;  // schedules with two chunks lose
    return costs;
  };
  CHECK(build_auto(request).placement.chunks() == 1);
  request.costs = {};
  CHECK(build_auto(request).placement.chunks() == 2);
}

TEST_CASE("auto uses memory between two schedules, and stages of uneven cost") {
  AutoRequest request = auto_request(4, 24, 5.5);
  request.max_chunks = 1;
  request.forward = {18}, request.input_grad = {21}, request.weight_grad = {11};
  CHECK(run_plan(build_auto(request), request).makespan < run_plan(build_schedule("zb-h1", {4, 1, 24}), request).makespan);
  request = auto_request(4, 24, 4);
  request.max_chunks = 1;
  request.forward = {1, 1, 1, 1.6};
  const Summary found = run_plan(build_auto(request), request);
  CHECK(found.makespan < run_plan(build_schedule("1f1b", {4, 1, 24}), request).makespan);
  CHECK(found.makespan >= 24 * 3.6);
}

TEST_CASE("auto with one chunk leaves stages whole, and gives the same plan again") {
  AutoRequest request = auto_request(3, 7, 3);
  request.max_chunks = 1;
  const Plan a = build_auto(request), b = build_auto(request);
  CHECK(a.placement.chunks() == 1);
  CHECK(a.stages == b.stages);
}

TEST_CASE("auto refuses what makes no sense") {
  CHECK_THROWS_AS(build_auto(auto_request(0, 1, 1)), std::invalid_argument);
  CHECK_THROWS_AS(build_auto(auto_request(2, 4, 0.5)), std::invalid_argument);
  AutoRequest request = auto_request(3, 4, 3);
  request.forward = {1, 2};
  CHECK_THROWS_AS(build_auto(request), std::invalid_argument);
  request.forward = {std::nan("")};
  CHECK_THROWS_AS(build_auto(request), std::invalid_argument);
}
