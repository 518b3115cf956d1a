#include "schedules/builders/weight_fill.hpp"

#include <algorithm>
#include <limits>
#include <queue>

namespace pipetrain::schedules {

namespace {

constexpr double unknown_end = std::numeric_limits<double>::infinity();

class Fill {
 public:
  Fill(const Placement& placement, int microbatches, const std::vector<std::vector<Action>>& order, const Costs& costs,
       const FillOptions& options)
      : placement_(placement),
        microbatches_(static_cast<std::size_t>(microbatches)),
        order_(order),
        costs_(costs),
        options_(options),
        stages_(order.size()) {
    const auto size = static_cast<std::size_t>(placement.virtual_stages()) * microbatches_;
    forward_end_.assign(size, unknown_end);
    backward_end_.assign(size, unknown_end);
    for (std::size_t s = 0; s < order.size(); ++s) {
      stages_[s].weights_done.resize(static_cast<std::size_t>(placement.chunks()));
      stages_[s].actions.reserve(order[s].size() * 3 / 2 + 8);
    }
  }

  std::optional<Filled> run() {
    for (int s = 0; s < placement_.stages(); ++s) decide_at(s, 0);
    while (!queue_.empty()) {
      const auto [time, s] = queue_.top();
      queue_.pop();
      stage(s).is_queued = false;
      if (!decide(s, time)) return std::nullopt;
    }
    Filled filled;
    for (Stage& each : stages_) {
      if (!each.is_finished) return std::nullopt;  // a deadlock
      filled.makespan = std::max(filled.makespan, each.free_at);
      filled.stages.push_back(std::move(each.actions));
    }
    return filled;
  }

 private:
  struct Stage {
    std::size_t position = 0;
    double free_at = 0;
    int held = 0;
    std::vector<std::int16_t> pending;  // chunks of the I without W
    std::size_t first_pending = 0;
    std::vector<int> weights_done;  // [chunk]
    std::vector<Action> actions;
    bool is_queued = false, is_finished = false;
  };
  using Decision = std::pair<double, int>;

  Stage& stage(int s) { return stages_[static_cast<std::size_t>(s)]; }
  std::size_t index(int v, const Action& action) const {
    return static_cast<std::size_t>(v) * microbatches_ + static_cast<std::size_t>(action.microbatch);
  }

  void decide_at(int s, double time) {
    if (stage(s).is_queued || stage(s).is_finished) return;
    stage(s).is_queued = true;
    queue_.emplace(std::max(time, stage(s).free_at), s);
  }

  // Returns the time at which the inputs arrive, or infinity while it is unknown; `at_least` is then a lower bound.
  double ready_time(int s, const Action& action, double now, double& at_least) const {
    const int v = placement_.virtual_stage(s, action.chunk);
    const bool is_forward = action.kind == ActionKind::forward;
    const int producer = is_forward ? v - 1 : v + 1;
    if (producer < 0 || producer == placement_.virtual_stages()) return at_least = 0;
    const double end = (is_forward ? forward_end_ : backward_end_)[index(producer, action)];
    const double transfer = costs_.transfer(std::min(v, producer));
    const StageChunk at = placement_.at(producer);
    Action input = action;
    input.chunk = static_cast<std::int16_t>(at.chunk);
    at_least = now + costs_.of(at.stage, input) + transfer;
    return end == unknown_end ? unknown_end : at_least = end + transfer;
  }

  bool decide(int s, double now) {
    Stage& at = stage(s);
    const auto& list = order_[static_cast<std::size_t>(s)];
    const bool has_pending = at.first_pending < at.pending.size();
    if (at.position == list.size()) {
      if (has_pending) return run_weight_grad(s, now);
      at.is_finished = true;
      return true;
    }
    const Action& head = list[at.position];
    const bool is_full = head.kind == ActionKind::forward && at.held >= options_.caps[static_cast<std::size_t>(s)];
    if (is_full) return has_pending && run_weight_grad(s, now);
    double at_least = 0;
    const double ready = ready_time(s, head, now, at_least);
    if (ready <= now) return run_head(s, now);
    if (has_pending) {
      const double weight = costs_.of(s, {ActionKind::weight_grad, at.pending[at.first_pending], 0});
      if (at_least - now >= options_.least_gap * weight * (1 - 1e-9)) return run_weight_grad(s, now);
    }
    if (ready != unknown_end) return run_head(s, ready);
    return true;  // the producer of the input wakes this stage
  }

  bool run_head(int s, double start) {
    Stage& at = stage(s);
    const Action action = order_[static_cast<std::size_t>(s)][at.position++];
    const int v = placement_.virtual_stage(s, action.chunk);
    at.free_at = start + costs_.of(s, action);
    at.actions.push_back(action);
    const bool is_forward = action.kind == ActionKind::forward;
    (is_forward ? forward_end_ : backward_end_)[index(v, action)] = at.free_at;
    if (is_forward) {
      ++at.held;
    } else {
      at.pending.push_back(action.chunk);
    }
    const int consumer = is_forward ? v + 1 : v - 1;
    if (consumer >= 0 && consumer < placement_.virtual_stages()) decide_at(placement_.at(consumer).stage, start);
    decide_at(s, at.free_at);
    return true;
  }

  bool run_weight_grad(int s, double start) {
    Stage& at = stage(s);
    const std::int16_t chunk = at.pending[at.first_pending++];
    const Action action{ActionKind::weight_grad, chunk, at.weights_done[static_cast<std::size_t>(chunk)]++};
    at.actions.push_back(action);
    at.free_at = start + costs_.of(s, action);
    --at.held;
    decide_at(s, at.free_at);
    return true;
  }

  const Placement& placement_;
  std::size_t microbatches_;
  const std::vector<std::vector<Action>>& order_;
  const Costs& costs_;
  const FillOptions& options_;
  std::vector<Stage> stages_;
  std::vector<double> forward_end_, backward_end_;
  std::priority_queue<Decision, std::vector<Decision>, std::greater<>> queue_;
};

}  // namespace

std::optional<Filled> fill_weight_grads(const Placement& placement, int microbatches,
                                        const std::vector<std::vector<Action>>& order, const Costs& costs,
                                        const FillOptions& options) {
  return Fill(placement, microbatches, order, costs, options).run();
}

}  // namespace pipetrain::schedules
