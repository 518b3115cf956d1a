#include "schedules/simulate/stage_times.hpp"

#include <algorithm>
#include <stdexcept>

namespace pipetrain::schedules {

namespace {

double stage_time_at(const std::vector<double>& values, std::size_t stage) { return values.empty() ? 0 : values[stage]; }

}  // namespace

Costs StageTimes::costs(const Placement& placement) const {
  Costs costs = Costs::per_stage(placement, forward, input_grad, weight_grad);
  costs.set_edges(placement, edges);
  const int chunks = placement.chunks();
  for (std::size_t stage = 0; stage < costs.chunks.size(); ++stage) {
    for (ChunkCost& chunk : costs.chunks[stage]) {
      chunk.forward_attention = chunk.input_grad_attention = attention;
      chunk.communication = stage_time_at(communication, stage) / chunks;
      chunk.collectives = std::max(1, collectives / chunks);
      chunk.reduce_grads = stage_time_at(reduce_grads, stage) / chunks;
      chunk.sum_replicated = stage_time_at(sum_replicated, stage) / chunks;
      chunk.sum_tied = stage_time_at(sum_tied, stage);
      chunk.overlapped_reduce = stage_time_at(overlapped_reduce, stage) / chunks;
      chunk.publish_weights = stage_time_at(publish_weights, stage) / chunks;
      chunk.offload = chunk.reload = stage_time_at(moves, stage) / chunks;
    }
  }
  costs.norm = norm;
  costs.optimizer = optimizer;
  costs.verdict = verdict;
  return costs;
}

Costs StageTimes::costs(const Plan& plan) const {
  Costs costs = this->costs(plan.placement);
  costs.slices = plan.slices;
  for (const auto& [name, time] : custom)
    if (std::none_of(plan.custom.begin(), plan.custom.end(), [&](const CustomAction& one) { return one.name == name; }))
      throw std::invalid_argument("the plan has no custom action " + name);
  for (const CustomAction& one : plan.custom) {
    const auto found = custom.find(one.name);
    costs.custom.push_back(found == custom.end() ? 0 : found->second);
  }
  return costs;
}

}  // namespace pipetrain::schedules
