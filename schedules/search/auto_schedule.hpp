// Finds a good plan for given costs and memory: the ordering problem of Qi et al. 2023, "Zero Bubble Pipeline Parallelism".
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "schedules/plan/plan.hpp"
#include "schedules/simulate/cost.hpp"
#include "schedules/simulate/simulate.hpp"

namespace pipetrain::schedules {

// The search takes minutes for more stages x microbatches.
constexpr std::int64_t largest_search = 16384;

struct AutoRequest {
  int stages = 1;
  int microbatches = 1;
  // Times of a whole stage and one microbatch; one value per stage, or one for all.
  std::vector<double> forward = {1}, input_grad = {1}, weight_grad = {1};
  std::vector<Link> edges;                       // as Costs::set_edges() takes them; empty: messages take no time
  std::function<Costs(const Placement&)> costs;  // replace these times and edges where chunks do not share them evenly
  // The most microbatches that each stage may hold from F to B or W, in whole stages; one value for all or one per
  // stage; empty: no limit. At least 1.
  std::vector<double> slots;
  QueueRoom room = QueueRoom::reserved;  // of the simulation that judges plans
  int max_chunks = 2;                    // 1 gives every stage one chunk
};

// Returns a plan whose simulated makespan is at most that of every other schedule of this library that fits the slots
// with its default chunks; often it is shorter. Deterministic. The plan has no stages when no order that this function
// tries fits the slots. Throws std::invalid_argument for sizes or costs that are out of range.
Plan build_auto(const AutoRequest& request);

// Returns the properties of a request on a placement: its costs, whether its edges have costs, and the most microbatches that
// each stage may hold, counted over its chunks.
Costs costs_on(const AutoRequest& request, const Placement& placement);
bool has_edges(const AutoRequest& request, const Placement& placement);
std::vector<int> slots_on(const AutoRequest& request, const Placement& placement);

}  // namespace pipetrain::schedules
