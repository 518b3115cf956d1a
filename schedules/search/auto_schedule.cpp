#include "schedules/search/auto_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>

#include "schedules/builders/builders.hpp"
#include "schedules/builders/building_block.hpp"
#include "schedules/builders/stage_list.hpp"
#include "schedules/builders/weight_fill.hpp"
#include "schedules/plan/braids.hpp"

namespace pipetrain::schedules {

namespace {

using Lists = std::vector<std::vector<Action>>;

constexpr double least_gaps[] = {0.05, 0.5, 1};
constexpr int climb_steps = 600;

std::vector<double> one_per_stage(const char* what, const std::vector<double>& values, int stages) {
  if (values.size() == 1) return std::vector<double>(static_cast<std::size_t>(stages), values[0]);
  if (values.size() == static_cast<std::size_t>(stages)) return values;
  throw std::invalid_argument(std::to_string(values.size()) + " " + what + " are given for " + std::to_string(stages) +
                              " stages");
}

// Returns the order for one chunk a stage: each stage starts with its number of forwards, then alternates I and F to the end.
Lists head_start_order(const std::vector<int>& head_starts, int microbatches) {
  Lists order;
  for (const int head_start : head_starts) {
    StageList list(1, microbatches);
    for (int i = 0; i < head_start; ++i) list.forward(0);
    while (list.has_backwards_left(0)) list.input_grad(0), list.forward(0);
    order.push_back(list.take());
  }
  return order;
}

class Search {
 public:
  explicit Search(const AutoRequest& request) : request_(request) {}

  Plan run() {
    try_known();
    search_one_chunk();
    if (request_.max_chunks >= 2 && request_.stages > 1) search_v_shape();
    best_.schedule = "auto";
    return std::move(best_);
  }

 private:
  std::vector<int> caps(const Placement& placement) const { return slots_on(request_, placement); }
  bool fits(const Plan& plan) const {
    const auto limits = caps(plan.placement);
    for (std::size_t stage = 0; stage < limits.size(); ++stage)
      if (peak_in_flight(plan.stages[stage]) > limits[stage]) return false;
    return true;
  }
  // The simulator judges plans.
  void offer(Plan plan, const Costs& costs) {
    const double makespan = summarize(simulate(plan, costs, {.room = request_.room})).makespan;
    if (makespan >= best_makespan_ * (1 - 1e-12)) return;
    best_makespan_ = makespan;
    best_ = std::move(plan);
  }
  void offer(const Placement& placement, Filled filled, const Costs& costs) {
    if (filled.makespan < best_makespan_)
      offer({"auto", placement, request_.microbatches, std::move(filled.stages), ReadyRule::plan_order}, costs);
  }

  void try_known() {
    for (const ScheduleInfo& info : all_schedules()) {
      if (info.uses_costs || info.default_chunks > request_.max_chunks) continue;
      Plan plan = info.build({request_.stages, info.default_chunks, request_.microbatches});
      if (has_braids(plan)) continue;  // the request's costs have no communication, so it equals dualpipe-v
      plan.ready_rule = ReadyRule::plan_order;
      if (has_edges(request_, plan.placement) && fits(plan)) offer(std::move(plan), costs_on(request_, plan.placement));
    }
  }

  // The numbers of initial forwards determine the order of F and I; W fills gaps. The search starts from the best
  // regular order and takes random steps that do not make it slower.
  void search_one_chunk() {
    const auto placement = Placement::looping(request_.stages, 1);
    const Costs costs = costs_on(request_, placement);
    const auto caps = this->caps(placement);
    const auto clamped = [&](int stage, int head_start) {
      return std::clamp(head_start, 1, std::max(1, caps[static_cast<std::size_t>(stage)]));
    };
    FillOptions options{caps, 1};
    double best = std::numeric_limits<double>::infinity();
    std::vector<int> head_starts;
    std::optional<Filled> found;
    const auto attempt = [&](const std::vector<int>& candidate, const FillOptions& with) {
      auto filled =
          fill_weight_grads(placement, request_.microbatches, head_start_order(candidate, request_.microbatches), costs, with);
      if (!filled || filled->makespan > best) return false;
      if (filled->makespan < best) found = filled;
      best = filled->makespan;
      head_starts = candidate;
      options = with;
      return true;
    };
    for (int lead = 4; lead <= 12; ++lead)  // in quarters of the distance to the last stage
      for (const double least_gap : least_gaps) {
        std::vector<int> candidate;
        for (int s = 0; s < request_.stages; ++s)
          candidate.push_back(clamped(s, 1 + (lead * (request_.stages - 1 - s) + 3) / 4));
        attempt(candidate, {caps, least_gap});
      }
    std::mt19937 random(1);
    for (int step = 0; step < climb_steps && found; ++step) {
      std::vector<int> candidate = head_starts;
      const int s = static_cast<int>(random() % candidate.size()), by = random() % 2 == 0 ? 1 : -1;
      candidate[static_cast<std::size_t>(s)] = clamped(s, candidate[static_cast<std::size_t>(s)] + by);
      FillOptions with = options;
      with.least_gap = least_gaps[random() % std::size(least_gaps)];
      attempt(candidate, with);
    }
    if (found) offer(placement, std::move(*found), costs);
  }
  void search_v_shape() {
    const auto placement = Placement::v_shape(request_.stages);
    const ScheduleShape shape{request_.stages, 2, request_.microbatches};
    const Costs costs = costs_on(request_, placement);
    std::optional<Filled> found;
    const auto attempt = [&](const Lists& order) {
      for (const double least_gap : least_gaps) {
        auto filled = fill_weight_grads(placement, request_.microbatches, order, costs, {caps(placement), least_gap});
        if (filled && (!found || filled->makespan < found->makespan)) found = std::move(filled);
      }
    };
    attempt(zb_v_order(shape));
    for (const auto& per_stage : {std::array{1, 1, 1, 1}, {1, 2, 1, 2}, {1, 2, 2, 1}, {2, 2, 1, 2}})
      for (int turns = 0; turns < 216; ++turns) {
        const BuildingBlock block{per_stage, {1 + turns / 36, 1 + turns / 6 % 6, 1 + turns % 6}};
        if (!collides(block, request_.stages)) attempt(repeat(block, shape));
      }
    if (found) offer(placement, std::move(*found), costs);
  }

  const AutoRequest& request_;
  Plan best_;
  double best_makespan_ = std::numeric_limits<double>::infinity();
};

}  // namespace

Costs costs_on(const AutoRequest& request, const Placement& placement) {
  const std::vector<double> forward = one_per_stage("times of F", request.forward, request.stages),
                            input_grad = one_per_stage("times of I", request.input_grad, request.stages),
                            weight_grad = one_per_stage("times of W", request.weight_grad, request.stages);
  if (request.costs) return request.costs(placement);
  Costs costs = Costs::per_stage(placement, forward, input_grad, weight_grad);
  if (!request.edges.empty()) costs.set_edges(placement, request.edges);
  return costs;
}

bool has_edges(const AutoRequest& request, const Placement& placement) {
  return request.edges.empty() || edges_used(placement) <= std::ssize(request.edges);
}

std::vector<int> slots_on(const AutoRequest& request, const Placement& placement) {
  const int most = placement.chunks() * request.microbatches;
  if (request.slots.empty()) return std::vector<int>(static_cast<std::size_t>(request.stages), most);
  std::vector<int> slots;
  for (const double given : one_per_stage("slots", request.slots, request.stages)) {
    if (!(given >= 1)) throw std::invalid_argument("every stage needs at least 1 slot, not " + std::to_string(given));
    slots.push_back(static_cast<int>(std::min(std::floor(given * placement.chunks() + 1e-9), static_cast<double>(most))));
  }
  return slots;
}

Plan build_auto(const AutoRequest& request) {
  if (request.stages < 1 || request.microbatches < 1 || request.max_chunks < 1)
    throw std::invalid_argument("stages, microbatches and chunks must be at least 1");
  Plan plan = Search(request).run();
  if (!plan.stages.empty() || request.slots.empty()) return plan;
  // The search starts every stage with as many forwards as the slots allow. That deadlocks where a stage has more slots
  // than the one before. Without the slots that only postponed weight gradients could use, there always is a plan.
  AutoRequest level = request;
  std::partial_sum(level.slots.begin(), level.slots.end(), level.slots.begin(),
                   [](double least, double slots) { return std::min(least, slots); });
  return Search(level).run();
}

// Without known costs it assumes F = I = W and the memory of 1f1b.
Plan build_auto(const ScheduleShape& shape) {
  AutoRequest request;
  request.stages = shape.stages;
  request.microbatches = shape.microbatches;
  request.slots = {static_cast<double>(shape.stages)};
  request.max_chunks = shape.chunks;
  return build_auto(request);
}

}  // namespace pipetrain::schedules
