// Memory that the gradients of several matrices share in succession, where each is summed over the replicas before the
// next begins. There is then no arena of all gradients.
//
// A replica's own sum over its microbatches needs memory from the first microbatch's gradient to the last one's. Only then are
// replicas added, in rank order, as the bits of the sums require. So matrices can share memory only where the lives of their
// gradients do not overlap: the blocks in a step of one microbatch, and the chunks of a breadth-first schedule (Lamy-Poirier
// 2023, arXiv 2211.05953). In all other plans every gradient lives until the end of the step, and nothing can be shared.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/parameters/shard_units.hpp"
#include "schedules/plan/action.hpp"

namespace pipetrain {

struct GradientPool {
  // Offset of each unit in the pool, in elements; no value: it is not in the pool.
  std::vector<std::optional<std::size_t>> begins;
  std::size_t length = 0;
  bool is_empty() const { return length == 0; }
};

// Returns the pool of a stage that runs these actions, in this order, in every step. It is empty if the pool and the
// ranges that a replica owns would take as much memory as all gradients. Pure.
GradientPool pool_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int replicas,
                            const std::vector<schedules::Action>& actions);

}  // namespace pipetrain
