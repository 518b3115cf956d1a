#include "schedules/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain::schedules;
using Catch::Matchers::Contains;

namespace {

struct Times {
  double f = 1, i = 1, w = 1;
};
const Times all_times[] = {{1, 1, 1}, {10, 11, 8}, {18, 21, 11}, {1, 2, 2}};

struct Run {
  Summary summary;
  double over_ideal;
};

Run run_named(const char* name, const ScheduleShape& shape, const Times& t, Order order = Order::planned) {
  const Plan plan = build_schedule(name, shape);
  const Costs costs = Costs::uniform(plan.placement, t.f, t.i, t.w);
  SimulationOptions options;
  options.order = order;
  const Summary summary = summarize(simulate(plan, costs, options));
  return {summary, summary.makespan - ideal_time(costs, shape.microbatches)};
}

// Returns when a plan ends if every action starts once the previous one in its list has ended and its input is there:
// computed by passes over the lists, without queues.
double end_on_paper(const Plan& plan, const Costs& costs) {
  const int last = plan.placement.virtual_stages() - 1, m = plan.microbatches;
  const auto not_yet = std::vector<double>(static_cast<std::size_t>((last + 1) * m), -1);
  auto forward = not_yet, input_grad = not_yet;  // their ends
  const auto cell = [m](int v, int microbatch) { return static_cast<std::size_t>(v * m + microbatch); };
  std::vector<std::size_t> next(plan.stages.size());
  std::vector<double> free_at(plan.stages.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      for (; next[s] < plan.stages[s].size(); ++next[s], moved = true) {
        const Action& action = plan.stages[s][next[s]];
        const int v = plan.placement.virtual_stage(static_cast<int>(s), action.chunk);
        double input = 0;
        if (action.kind == ActionKind::forward && v > 0) {
          input = forward[cell(v - 1, action.microbatch)];
          if (input >= 0) input += costs.transfer(v - 1);
        } else if (gives_input_grad(action.kind) && v < last) {
          input = input_grad[cell(v + 1, action.microbatch)];
          if (input >= 0) input += costs.transfer(v);
        }
        if (input < 0) break;
        free_at[s] = std::max(free_at[s], input) + costs.of(static_cast<int>(s), action);
        if (action.kind == ActionKind::forward) forward[cell(v, action.microbatch)] = free_at[s];
        if (gives_input_grad(action.kind)) input_grad[cell(v, action.microbatch)] = free_at[s];
      }
    }
  }
  return *std::max_element(free_at.begin(), free_at.end());
}

double largest_peak(const Summary& summary) {
  double peak = 0;
  for (const auto& stage : summary.stages) peak = std::max(peak, stage.peak_activations);
  return peak;
}

}  // namespace

// The closed forms hold for uniform costs, m >= 2p and no communication.

TEST_CASE("gpipe and 1f1b wait (p - 1)(F + I + W)") {
  for (const Times& t : all_times)
    for (const int p : {1, 2, 4, 8})
      for (const int m : {2 * p, 3 * p + 1})
        for (const char* name : {"gpipe", "1f1b"})
          for (const auto order : {Order::planned, Order::ready}) {
            const Run result = run_named(name, {p, 1, m}, t, order);
            CHECK(result.over_ideal == Approx((p - 1) * (t.f + t.i + t.w)).margin(1e-9));
            CHECK(result.summary.stages[0].peak_activations == (std::string(name) == "gpipe" ? m : p));
          }
}

TEST_CASE("interleaved waits 1f1b's time over v, and holds p + (p - 1) / v") {
  for (const Times& t : all_times)
    for (const int p : {2, 4, 8})
      for (const int v : {2, 3, 4})
        for (const int m : {2 * p, 4 * p}) {
          const Run result = run_named("interleaved", {p, v, m}, t);
          CHECK(result.over_ideal == Approx((p - 1) * (t.f + t.i + t.w) / v));
          CHECK(result.summary.stages[0].peak_activations == Approx(p + (p - 1.0) / v));
          CHECK(run_named("looped-bfs", {p, v, m}, t).over_ideal == Approx((p - 1) * (t.f + t.i + t.w) / v));
        }
}

TEST_CASE("interleaved waits no longer where p does not divide m, and holds as little more as can be") {
  for (const int p : {2, 3, 4, 8})
    for (const int v : {2, 3, 4})
      for (int m = 2 * p; m <= 3 * p; ++m) {
        const Run result = run_named("interleaved", {p, v, m}, {});
        CHECK(result.over_ideal == Approx((p - 1) * 3.0 / v));
        const int longest_group = (m + m / p - 1) / (m / p);
        CHECK(result.summary.stages[0].peak_activations == Approx((2.0 * (p - 1) + (v - 1) * longest_group + 1) / v));
      }
}

// The paper's (p - 1)(F + I - W) assumes W <= F <= I. If W is longer than F, stage 0 still waits p - 1 times I for its
// first gradient after the p forwards that its memory allows.
TEST_CASE("zb-h1 waits (p - 1)(F + I - W) and holds p") {
  for (const Times& t : all_times)
    for (const int p : {2, 4, 8})
      for (const int m : {2 * p, 24}) {
        const Run result = run_named("zb-h1", {p, 1, m}, t);
        CHECK(result.over_ideal == Approx((p - 1) * (t.i + std::max(0.0, t.f - t.w))));
        CHECK(largest_peak(result.summary) == p);
      }
}

TEST_CASE("zb-h2 and zb-v never wait in between at F = I = W") {
  for (const int p : {2, 3, 4, 8})
    for (const int m : {2 * p, 3 * p, 24}) {
      const Run h2 = run_named("zb-h2", {p, 1, m}, {});
      CHECK(h2.over_ideal == Approx(p - 1));
      CHECK(h2.summary.span_bubble == Approx(0).margin(1e-9));
      CHECK(largest_peak(h2.summary) == 2 * p - 1);
      const Run v = run_named("zb-v", {p, 2, m}, {});
      CHECK(v.over_ideal == Approx((p - 1) / 2.0));
      CHECK(v.summary.span_bubble == Approx(0).margin(1e-9));
      CHECK(largest_peak(v.summary) == p);
    }
}

TEST_CASE("the V schedules hold what they promise") {
  struct Want {
    const char* name;
    double at_4, at_8;
  };
  for (const Want& want : {Want{"v-half", 3, 5}, Want{"v-min", 2, 4}, Want{"dualpipe-v", 4.5, 8.5}, Want{"zb-v", 4, 8}}) {
    CAPTURE(want.name);
    CHECK(largest_peak(run_named(want.name, {4, 2, 24}, {}).summary) == want.at_4);
    CHECK(largest_peak(run_named(want.name, {8, 2, 24}, {}).summary) == want.at_8);
  }
  for (int p = 3; p <= 12; ++p) {
    CAPTURE(p);
    const Run half = run_named("v-half", {p, 2, 3 * p}, {}), min = run_named("v-min", {p, 2, 3 * p}, {}),
              dual = run_named("dualpipe-v", {p, 2, 3 * p}, {});
    CHECK(half.over_ideal == Approx((3 * p - (p % 2 == 0 ? 5 : 4)) / 2.0));
    CHECK(largest_peak(half.summary) == p / 2 + 1);
    CHECK(min.over_ideal == Approx(2 * p - 2.5));
    CHECK(largest_peak(min.summary) == (p + 4) / 3);
    CHECK(dual.over_ideal == Approx((p - 1) / 2.0));
    CHECK(largest_peak(dual.summary) == p + 0.5);
  }
  // They trade time for memory: less memory, more waiting, but less than 1f1b's.
  for (const int p : {4, 8}) {
    CHECK(run_named("v-half", {p, 2, 24}, {}).over_ideal < run_named("v-min", {p, 2, 24}, {}).over_ideal);
    CHECK(run_named("v-min", {p, 2, 24}, {}).over_ideal < run_named("1f1b", {p, 1, 24}, {}).over_ideal);
  }
}

TEST_CASE("time words add up") {
  for (const ScheduleInfo& info : all_schedules()) {
    const Plan plan = info.build({4, info.default_chunks, 9});
    const Costs costs = Costs::per_stage(plan.placement, {1, 2, 1, 1.5}, {1, 2, 1, 1}, {1, 1, 1, 0.5}, 0.25);
    std::vector<double> transfers;
    for (int v = 0; v + 1 < plan.placement.virtual_stages(); ++v) transfers.push_back(costs.transfer(v));
    const Summary summary = summarize(simulate(plan, costs), transfers);
    double busy = 0;
    for (int s = 0; s < 4; ++s) {
      const auto& stage = summary.stages[static_cast<std::size_t>(s)];
      CHECK(stage.busy == Approx(costs.compute(s, 9)));
      CHECK(stage.idle == Approx(summary.makespan - stage.busy));
      CHECK(stage.idle_warm_up + stage.idle_steady + stage.idle_cool_down + stage.idle_communication == Approx(stage.idle));
      CHECK(stage.span <= summary.makespan + 1e-9);
      busy += stage.busy;
    }
    CHECK(summary.bubble_fraction == Approx(1 - busy / (4 * summary.makespan)));
    CHECK(summary.makespan >= ideal_time(costs, 9));
  }
}

TEST_CASE("the critical path is unbroken from the first start to the last end") {
  for (const ScheduleInfo& info : all_schedules()) {
    const Plan plan = with_end_of_step(info.build({3, info.default_chunks, 7}), {true, true, true});
    Costs costs = Costs::uniform(plan.placement, 1, 1.5, 0.75);
    for (auto& stage : costs.chunks)
      for (auto& chunk : stage) chunk.reduce_grads = 0.5, chunk.sum_tied = 0.25;
    costs.norm.assign(3, 0.1);
    costs.optimizer = {0.5, 1, 0.5};
    const Timeline timeline = simulate(plan, costs);
    const auto path = critical_path(timeline);
    double at = 0;
    for (const SpanRef& ref : path) {
      const Span& span = timeline.stages[static_cast<std::size_t>(ref.stage)][ref.index];
      CHECK(span.start == Approx(at).margin(1e-9));
      at = span.end;
    }
    CHECK(at == Approx(summarize(timeline).makespan));
  }
}

TEST_CASE("the critical path comes to its end where actions take no time") {
  for (const ScheduleInfo& info : all_schedules())
    for (const double verdict : {0.0, 1.0})
      for (const double work : {1.0, 1e-300}) {  // the latter is negligible compared with the rest
        const Plan plan = with_end_of_step(info.build({3, info.default_chunks, 5}), {true, true, true});
        Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
        for (auto& stage : costs.chunks)
          for (auto& chunk : stage) chunk.weight_grad = work;
        for (auto& chunk : costs.chunks[1]) chunk.forward = chunk.input_grad = work;
        costs.verdict = verdict;
        const Timeline timeline = simulate(plan, costs);
        const auto path = critical_path(timeline);
        std::set<std::pair<int, std::size_t>> followed;
        for (const SpanRef& ref : path) CHECK(followed.insert({ref.stage, ref.index}).second);
        REQUIRE_FALSE(path.empty());
        const auto span = [&](const SpanRef& ref) { return timeline.stages[static_cast<std::size_t>(ref.stage)][ref.index]; };
        CHECK(span(path.front()).start == 0);
        CHECK(span(path.back()).action.kind == ActionKind::optimizer);
      }
}

TEST_CASE("a message delays its receiver only") {
  // Two stages, one microbatch: F, message, F, B, message, B.
  const Plan plan = build_schedule("1f1b", {2, 1, 1});
  const Summary summary = summarize(simulate(plan, Costs::uniform(plan.placement, 1, 1, 1, 0.5)), {0.5});
  CHECK(summary.makespan == Approx(7));
  CHECK(summary.stages[0].idle_communication == Approx(0.5));
  Costs wide = Costs::uniform(plan.placement, 1, 1, 1);
  wide.links = {{0.25, 8}};
  wide.links[0].bytes = 2;
  CHECK(summarize(simulate(plan, wide)).makespan == Approx(7));
}

TEST_CASE("with room for all, nothing but lists and messages delays an action") {
  bool reserved_differs = false;
  for (const ScheduleInfo& info : all_schedules())
    for (const double p2p : {0.0, 0.3, 1.0, 3.0})
      for (const int p : {2, 4, 8})
        for (const int m : {p, 2 * p + 1, 32}) {
          const Plan plan = info.build({p, info.default_chunks, m});
          CAPTURE(info.name, p2p, p, m);
          std::vector<double> times;
          for (int s = 0; s < p; ++s) times.push_back(1 + 0.25 * ((s * 5) % 4));
          const Costs costs = Costs::per_stage(plan.placement, times, times, times, p2p);
          const double makespan = summarize(simulate(plan, costs, {.room = QueueRoom::all})).makespan;
          CHECK(makespan == Approx(end_on_paper(plan, costs)));
          const double reserved = summarize(simulate(plan, costs)).makespan;
          CHECK(reserved >= makespan - 1e-9);
          reserved_differs = reserved_differs || reserved > makespan + 1e-9;
        }
  CHECK(reserved_differs);
  const Plan plan = build_schedule("1f1b", {2, 1, 2});
  const Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
  CHECK_THROWS_AS(simulate(plan, costs, {.order = Order::ready, .room = QueueRoom::all}), std::invalid_argument);
}

TEST_CASE("collectives at the end hold stages together") {
  const Plan plan = with_end_of_step(build_schedule("1f1b", {2, 1, 2}), {false, false, true});
  Costs costs = Costs::uniform(plan.placement, 1, 1, 1);
  for (auto& stage : costs.chunks) stage[0].sum_tied = 1;
  costs.norm = {1, 2};
  costs.optimizer = {1, 1};
  costs.verdict = 0.5;
  const Timeline timeline = simulate(plan, costs);
  // Stage 0 ends its backward at 9 and stage 1 earlier; T takes both 1, the slower norm 2, then the verdict and O.
  for (const auto& spans : timeline.stages) {
    CHECK(spans[4].action.kind == ActionKind::sum_tied);
    CHECK(spans[4].end == Approx(10));
    CHECK(spans[6].start == Approx(12.5));
    CHECK(spans[6].end == Approx(13.5));
  }
}

TEST_CASE("impossible costs are refused") {
  const Plan plan = build_schedule("1f1b", {2, 1, 2});
  const auto with = [&](double f, double i, double w, double p2p) {
    simulate(plan, Costs::uniform(plan.placement, f, i, w, p2p));
  };
  CHECK_THROWS_WITH(with(0, 1, 1, 0), Contains("F on stage 0"));
  CHECK_THROWS_WITH(with(1, -1, 1, 0), Contains("I on stage 0"));
  CHECK_THROWS_WITH(with(1, 1, std::nan(""), 0), Contains("W on stage 0"));
  CHECK_THROWS_WITH(with(1, 1, 1, -0.1), Contains("message"));
  CHECK_THROWS_WITH(Costs::per_stage(plan.placement, {1}, {1, 1}, {1, 1}), Contains("1 times of F") && Contains("2"));
}

TEST_CASE("bytes follow what a stage holds") {
  const Plan plan = build_schedule("zb-h1", {2, 1, 4});  // stage 1: F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3
  const Timeline timeline = simulate(plan, Costs::uniform(plan.placement, 1, 1, 1));
  ChunkCost chunk;
  chunk.held_bytes = 100;
  chunk.pending_bytes = 10;
  CHECK(peak_bytes(timeline, 1, {chunk}) == 220);
  CHECK(peak_bytes(timeline, 0, {chunk}) == 210);
}
