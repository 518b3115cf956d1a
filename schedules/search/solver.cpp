#include "schedules/search/solver.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "schedules/builders/builders.hpp"
#include "schedules/search/order_bounds.hpp"
#include "schedules/search/order_search.hpp"
#include "schedules/search/order_tree.hpp"

namespace pipetrain::schedules {

namespace {

constexpr double solver_rounding = 1e-9;
constexpr std::size_t deepest_tree = 4096;  // actions: the search recurses once for each

std::vector<Placement> placements(const AutoRequest& request) {
  std::vector<Placement> all = {Placement::looping(request.stages, 1)};
  if (request.max_chunks < 2 || request.stages == 1) return all;
  for (const auto& two : {Placement::v_shape(request.stages), Placement::looping(request.stages, 2)})
    if (has_edges(request, two)) all.push_back(two);
  return all;
}

// The search for one placement.
struct Room {
  Room(const Placement& placement, const AutoRequest& request)
      : costs(costs_on(request, placement)), problem(placement, request.microbatches, costs, slots_on(request, placement)) {}

  Costs costs;
  OrderProblem problem;
  double bound = 0;
  std::unique_ptr<OrderSearch> search;
  double offered = std::numeric_limits<double>::infinity();  // end of the words that were judged last
  bool searched = false;                                     // its tree is complete
};

class Solver {
 public:
  explicit Solver(const SolverRequest& request) : request_(request), begin_(std::chrono::steady_clock::now()) {}

  Solved run() {
    offer(build_auto(request_.problem));
    begin_ = std::chrono::steady_clock::now();
    open_rooms();
    for (std::int64_t round = 0; !is_over(); ++round)
      for (Room& room : rooms_)
        if (is_open(room)) improve(room, round);
    solved_.bound = std::min(bound(), solved_.makespan);
    solved_.plan.schedule = "solver";
    return std::move(solved_);
  }

 private:
  // The simulator judges plans.
  void offer(Plan plan) {
    if (plan.stages.empty()) return;
    const Costs costs = costs_on(request_.problem, plan.placement);
    const double makespan = summarize(simulate(plan, costs, {.room = request_.problem.room})).makespan;
    if (!solved_.plan.stages.empty() && makespan >= solved_.makespan * (1 - 1e-12)) return;
    solved_.makespan = makespan;
    solved_.plan = std::move(plan);
    solved_.plan.ready_rule = ReadyRule::none;
  }

  void open_rooms() {
    for (const Placement& placement : placements(request_.problem)) {
      Room room(placement, request_.problem);
      check_costs(room.costs, placement);
      if (!room.problem.solvable()) continue;
      room.bound = lower_bound(room.problem);
      rooms_.push_back(std::move(room));
    }
    for (Room& room : rooms_) room.search = std::make_unique<OrderSearch>(room.problem, start(room), request_.seed);
  }

  // Returns the best words that are known for a placement.
  Words start(const Room& room) const {
    OrderTimes times(room.problem);
    Words best = room.problem.one_by_one();
    double best_end = times.evaluate(best);
    const auto try_plan = [&](const Plan& plan) {
      if (plan.placement != room.problem.placement()) return;
      Words words = room.problem.words_of(plan);
      for (int stage = 0; stage < room.problem.stages(); ++stage)
        if (!room.problem.keeps_rules(stage, words[static_cast<std::size_t>(stage)])) return;
      if (const double end = times.evaluate(words); end < best_end) best = std::move(words), best_end = end;
    };
    if (!solved_.plan.stages.empty()) try_plan(solved_.plan);
    const int chunks = room.problem.chunks();
    for (const ScheduleInfo& info : all_schedules())
      if (!info.uses_costs && (info.default_chunks == chunks || info.chunks_can_vary))
        try_plan(info.build({room.problem.stages(), chunks, room.problem.microbatches()}));
    return best;
  }

  // Alternates hotter and colder rounds from the best words so far; then the tree, with more nodes each time while it
  // is not complete.
  void improve(Room& room, std::int64_t round) {
    constexpr std::int64_t moves = 20'000, most_nodes = 2'000'000;
    constexpr double heats[] = {0.5, 0.25, 0.125};
    const double enough = room.bound * (1 + solver_rounding);
    take(moves, [&](std::int64_t many, const auto& stop) {
      room.search->cool(many, heats[round % std::ssize(heats)], enough, stop);
      return many;
    });
    offer_best(room);
    if (!is_open(room) || room.problem.actions() > deepest_tree) return;
    const std::int64_t nodes = std::min(moves << std::min<std::int64_t>(round, 10), most_nodes);
    take(nodes, [&](std::int64_t many, const auto& stop) {
      OrderTree tree(room.problem, std::min(room.search->best_end(), solved_.makespan));
      if ((room.searched = tree.search(many, stop))) room.bound = std::max(room.bound, tree.best_end());
      if (!tree.best().empty()) room.search->restart(tree.best());
      return many;
    });
    offer_best(room);
  }

  void offer_best(Room& room) {
    if (room.search->best_end() >= std::min(room.offered, solved_.makespan)) return;
    room.offered = room.search->best_end();
    offer(room.problem.plan_of(room.search->best()));
  }

  template <class Work>
  void take(std::int64_t iterations, Work work) {
    const std::int64_t many = std::min(iterations, request_.iterations - solved_.iterations);
    if (many > 0) solved_.iterations += work(many, std::function<bool()>([&] { return is_late(); }));
  }

  double bound() const {
    double least = std::numeric_limits<double>::infinity();
    for (const Room& room : rooms_) least = std::min(least, room.bound);
    return least;
  }
  bool is_open(const Room& room) const {
    return !room.searched && (solved_.plan.stages.empty() || room.bound < solved_.makespan * (1 - solver_rounding));
  }
  bool is_late() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() >= request_.seconds;
  }
  bool is_over() {
    if (std::none_of(rooms_.begin(), rooms_.end(), [&](const Room& room) { return is_open(room); })) {
      solved_.ended = bound() < solved_.makespan * (1 - solver_rounding) ? SolverEnd::searched : SolverEnd::proved;
    } else if (solved_.iterations >= request_.iterations) {
      solved_.ended = SolverEnd::iterations;
    } else if (is_late()) {
      solved_.ended = SolverEnd::seconds;
    } else {
      return false;
    }
    return true;
  }

  const SolverRequest& request_;
  std::chrono::steady_clock::time_point begin_;
  std::vector<Room> rooms_;
  Solved solved_;
};

}  // namespace

Solved solve(const SolverRequest& request) {
  if (!(request.seconds > 0) || request.iterations < 1)
    throw std::invalid_argument("the solver needs a time and a number of iterations above 0");
  if (std::isinf(request.seconds) && request.iterations == std::numeric_limits<std::int64_t>::max())
    throw std::invalid_argument("the solver needs a limit: of seconds, or of iterations");
  return Solver(request).run();
}

Plan build_solver(const ScheduleShape& shape) {
  SolverRequest request;
  request.problem.stages = shape.stages;
  request.problem.microbatches = shape.microbatches;
  request.problem.slots = {static_cast<double>(shape.stages)};
  request.problem.max_chunks = shape.chunks;
  request.iterations = 100'000;
  return solve(request).plan;
}

}  // namespace pipetrain::schedules
