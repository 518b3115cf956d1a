// The times of whole stages, as users give them, and the costs of a plan's actions that follow from them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "schedules/simulate/cost.hpp"

namespace pipetrain::schedules {

struct StageTimes {
  // Times of a whole stage and one microbatch, shared by its chunks; one per stage.
  std::vector<double> forward, input_grad, weight_grad;
  std::vector<Link> edges;  // as Costs::set_edges() takes them
  // End of step, of a whole stage; one per stage. Empty where not given.
  std::vector<double> reduce_grads, sum_replicated, sum_tied, norm, optimizer;
  // Overlapped with compute, of a whole stage; one per stage, or empty: 0. The sums add their remaining time to reduce_grads.
  std::vector<double> overlapped_reduce, publish_weights;
  double verdict = 0;
  std::vector<double> moves;             // of P and of G of a whole stage, shared by its chunks; one per stage, or empty: 0
  std::map<std::string, double> custom;  // by name of the custom actions; 0 for others
  // The time of exchanges within the stage in each of forward and input_grad, one value per stage (empty: 0), and the number
  // of collectives of a whole stage: see ChunkCost.
  std::vector<double> communication;
  int collectives = 1;
  double attention = 0;  // the share of attention in F and I, for plans with slices

  EndOfStep end_of_step() const {
    return {!reduce_grads.empty() || !overlapped_reduce.empty(), !sum_replicated.empty(), !sum_tied.empty()};
  }
  // Throws std::invalid_argument where an edge in use has no link.
  Costs costs(const Placement& placement) const;
  // Includes custom actions. Also throws where the plan has none of a given name.
  Costs costs(const Plan& plan) const;
};

}  // namespace pipetrain::schedules
