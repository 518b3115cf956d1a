// The solver, compared with all orders of small problems, one by one, and with the other schedules.
#include "schedules/search/solver.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>

#include "catch.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/search/order_bounds.hpp"
#include "schedules/search/order_problem.hpp"
#include "schedules/search/order_tree.hpp"

using namespace pipetrain::schedules;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Eighths, whose sums are exact.
double random_time(std::mt19937& random) { return static_cast<double>(1 + random() % 16) / 8; }

Costs random_costs(const Placement& placement, std::mt19937& random) {
  Costs costs = Costs::uniform(placement, 1, 1, 1);
  for (auto& stage : costs.chunks)
    for (ChunkCost& chunk : stage)
      chunk.forward = random_time(random), chunk.input_grad = random_time(random), chunk.weight_grad = random_time(random);
  for (Link& link : costs.links) link.latency = random() % 2 == 0 ? 0 : random_time(random) / 8;
  return costs;
}

// All words that a stage may have.
std::vector<Word> all_words(const OrderProblem& problem, int stage) {
  std::vector<Word> all;
  Word word;
  const std::size_t length = 3 * static_cast<std::size_t>(problem.chunks() * problem.microbatches());
  std::vector<std::array<int, 3>> done(static_cast<std::size_t>(problem.chunks()));
  int held = 0;
  const std::function<void()> extend = [&] {
    if (word.size() == length) all.push_back(word);
    for (std::size_t c = 0; c < done.size(); ++c)
      for (const auto kind : {Letter::F, Letter::I, Letter::W}) {
        const int limit = kind == Letter::F ? problem.microbatches() : done[c][kind - 1U];
        const int holds = kind == Letter::F ? 1 : kind == Letter::W ? -1 : 0;
        if (done[c][kind] == limit || held + holds > problem.cap(stage)) continue;
        ++done[c][kind], held += holds;
        word.push_back({kind, static_cast<std::uint8_t>(c)});
        extend();
        word.pop_back();
        --done[c][kind], held -= holds;
      }
  };
  extend();
  return all;
}

double best_of_all(const OrderProblem& problem) {
  std::vector<std::vector<Word>> choices;
  for (int stage = 0; stage < problem.stages(); ++stage) choices.push_back(all_words(problem, stage));
  OrderTimes times(problem);
  Words words(choices.size());
  double best = infinity;
  const std::function<void(std::size_t)> choose = [&](std::size_t stage) {
    if (stage == words.size()) {
      best = std::min(best, times.evaluate(words));
      return;
    }
    for (const Word& word : choices[stage]) words[stage] = word, choose(stage + 1);
  };
  choose(0);
  return best;
}

struct Shape {
  Placement placement;
  int microbatches, most_cap;
};
// Small enough to try all of their orders.
std::vector<Shape> small_shapes() {
  return {{Placement::looping(1, 1), 3, 3}, {Placement::looping(2, 1), 1, 1}, {Placement::looping(2, 1), 3, 3},
          {Placement::looping(3, 1), 2, 2}, {Placement::looping(3, 1), 3, 3}, {Placement::looping(4, 1), 2, 2},
          {Placement::v_shape(2), 1, 2},    {Placement::looping(2, 2), 1, 2}, {Placement::v_shape(2), 2, 2},
          {Placement::looping(2, 2), 2, 2}, {Placement::looping(1, 2), 2, 4}};
}

std::vector<int> random_caps(const Shape& shape, std::mt19937& random) {
  std::vector<int> caps;
  const int least = shape.placement.chunks();
  for (int s = 0; s < shape.placement.stages(); ++s)
    caps.push_back(least + static_cast<int>(random() % static_cast<unsigned>(shape.most_cap - least + 1)));
  return caps;
}

SolverRequest solver_request(int stages, int microbatches, double slots, std::int64_t iterations = 20'000) {
  SolverRequest request;
  request.problem.stages = stages;
  request.problem.microbatches = microbatches;
  request.problem.slots = {slots};
  request.problem.room = QueueRoom::all;
  request.iterations = iterations;
  return request;
}

double solved_makespan(const Plan& plan, const AutoRequest& request) {
  return summarize(simulate(plan, costs_on(request, plan.placement), {.room = request.room})).makespan;
}

bool fits(const Plan& plan, const AutoRequest& request) {
  const auto slots = slots_on(request, plan.placement);
  for (std::size_t stage = 0; stage < slots.size(); ++stage)
    if (peak_in_flight(plan.stages[stage]) > slots[stage]) return false;
  return true;
}

}  // namespace

TEST_CASE("the tree finds the best of all orders, and no bound is above it") {
  std::mt19937 random(1);
  for (const Shape& shape : small_shapes())
    for (int round = 0; round < 6; ++round) {
      const Costs costs = random_costs(shape.placement, random);
      const OrderProblem problem(shape.placement, shape.microbatches, costs, random_caps(shape, random));
      const double best = best_of_all(problem);
      CAPTURE(shape.placement.stages(), shape.placement.chunks(), shape.microbatches, round);
      CHECK(lower_bound(problem) <= best * (1 + 1e-12));
      OrderTree tree(problem, infinity);
      REQUIRE(tree.search(std::int64_t{1} << 40, [] { return false; }));
      CHECK(tree.best_end() == Approx(best).epsilon(1e-12));
      CHECK(OrderTimes(problem).evaluate(tree.best()) == Approx(best).epsilon(1e-12));
      for (int stage = 0; stage < problem.stages(); ++stage)
        CHECK(problem.keeps_rules(stage, tree.best()[static_cast<std::size_t>(stage)]));
    }
}

TEST_CASE("the solver finds the best of all orders of small pipelines, and says that it is") {
  std::mt19937 random(2);
  for (const auto& [stages, microbatches] : {std::pair{2, 3}, {3, 3}, {4, 2}})
    for (const double slots : {1.0, 2.0, 3.0}) {
      SolverRequest request = solver_request(stages, microbatches, slots, 10'000'000);
      request.problem.max_chunks = 1;
      const Costs costs = random_costs(Placement::looping(stages, 1), random);
      request.problem.costs = [&](const Placement&) { return costs; };
      const Solved solved = solve(request);
      const OrderProblem problem(Placement::looping(stages, 1), microbatches, costs,
                                 slots_on(request.problem, Placement::looping(stages, 1)));
      CAPTURE(stages, microbatches, slots);
      CHECK(solved.makespan == Approx(best_of_all(problem)).epsilon(1e-9));
      CHECK(solved.ended == SolverEnd::proved);
      CHECK(solved.gap() == Approx(0).margin(1e-9));
      CHECK(solved_makespan(solved.plan, request.problem) == solved.makespan);
    }
}

TEST_CASE("the solver never loses to another schedule within the same slots, nor any of them to its bound") {
  std::mt19937 random(3);
  for (const int stages : {1, 2, 4, 6})
    for (const double slots : {1.0, 2.0, 3.5, 6.0})
      for (const QueueRoom room : {QueueRoom::all, QueueRoom::reserved}) {
        SolverRequest request = solver_request(stages, 9, slots);
        request.problem.room = room;
        for (auto* times : {&request.problem.forward, &request.problem.input_grad, &request.problem.weight_grad}) {
          times->clear();
          for (int s = 0; s < stages; ++s) times->push_back(random_time(random));
        }
        request.problem.edges.assign(static_cast<std::size_t>(stages), {0.0625});
        const Solved solved = solve(request);
        CAPTURE(stages, slots, room == QueueRoom::all);
        REQUIRE(solved.plan.stages.size() == static_cast<std::size_t>(stages));
        CHECK_NOTHROW(validate(solved.plan));
        CHECK(fits(solved.plan, request.problem));
        CHECK(solved_makespan(solved.plan, request.problem) == solved.makespan);
        CHECK(solved.bound <= solved.makespan);
        CHECK(solved.makespan <= solved_makespan(build_auto(request.problem), request.problem) * (1 + 1e-9));
        for (const ScheduleInfo& info : all_schedules()) {
          if (info.uses_costs) continue;
          const Plan other = info.build({stages, info.default_chunks, 9});
          CAPTURE(info.name);
          if (!fits(other, request.problem)) continue;
          CHECK(solved.makespan <= solved_makespan(other, request.problem) * (1 + 1e-9));
          CHECK(solved.bound <= solved_makespan(other, request.problem) * (1 + 1e-9));
        }
      }
}

TEST_CASE("words end when the simulator says, and never where they wait for each other") {
  std::mt19937 random(4);
  for (const auto& placement : {Placement::looping(4, 1), Placement::v_shape(3), Placement::looping(3, 2)})
    for (const ScheduleInfo& info : all_schedules()) {
      if (info.uses_costs || info.default_chunks != placement.chunks()) continue;
      Plan plan = info.build({placement.stages(), placement.chunks(), 7});
      if (plan.placement != placement) continue;
      const Costs costs = random_costs(placement, random);
      const OrderProblem problem(placement, 7, costs, std::vector<int>(static_cast<std::size_t>(placement.stages()), 99));
      const Words words = problem.words_of(plan);
      const Plan split = problem.plan_of(words);
      CAPTURE(info.name, placement.stages());
      CHECK_NOTHROW(validate(split));
      const double end = OrderTimes(problem).evaluate(words);
      CHECK(end == summarize(simulate(split, costs, {.room = QueueRoom::all})).makespan);
      CHECK(end <= summarize(simulate(plan, costs, {.room = QueueRoom::all})).makespan * (1 + 1e-12));
    }
  const OrderProblem two(Placement::v_shape(2), 2, Costs::uniform(Placement::v_shape(2), 1, 1, 1), {4, 4});
  Words words = two.one_by_one();
  CHECK(std::isfinite(OrderTimes(two).evaluate(words)));
  std::rotate(words[1].begin(), words[1].begin() + 1, words[1].begin() + 2);  // the second chunk's F before the first's
  CHECK(two.keeps_rules(1, words[1]));
  CHECK(std::isinf(OrderTimes(two).evaluate(words)));
}

TEST_CASE("the solver gains where memory is short, the same again, and stops at its limits") {
  SolverRequest request = solver_request(8, 16, 4, 400'000);
  request.problem.max_chunks = 1;
  const Solved once = solve(request), again = solve(request);
  CHECK(once.plan.stages == again.plan.stages);
  CHECK(once.makespan < solved_makespan(build_auto(request.problem), request.problem) * 0.95);
  CHECK(once.iterations <= 400'000);
  request.problem.microbatches = 32;
  request.iterations = std::numeric_limits<std::int64_t>::max();
  request.seconds = 0.05;
  const auto begin = std::chrono::steady_clock::now();
  const Solved short_of_time = solve(request);
  CHECK(short_of_time.ended == SolverEnd::seconds);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));  // a busy machine takes its share
  CHECK(short_of_time.gap() > 0);
}

TEST_CASE("the solver by its name alone plans every shape") {
  for (int stages = 1; stages <= 6; ++stages)
    for (const int microbatches : {1, 2, 5, 12}) CHECK_NOTHROW(validate(build_schedule("solver", {stages, 1, microbatches})));
}

TEST_CASE("the solver refuses what makes no sense") {
  CHECK_THROWS_AS(solve(solver_request(0, 1, 1)), std::invalid_argument);
  CHECK_THROWS_AS(solve(solver_request(2, 4, 0.5)), std::invalid_argument);
  CHECK_THROWS_AS(solve(solver_request(2, 4, 2, 0)), std::invalid_argument);
  SolverRequest request = solver_request(2, 4, 2, std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(solve(request), std::invalid_argument);  // no limit
  request.seconds = std::nan("");
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
  request.seconds = 1;
  request.problem.forward = {1, 2, 3};
  CHECK_THROWS_AS(solve(request), std::invalid_argument);
}
