// Memory that the gradients of several matrices share one after the other, where each is summed over the replicas before the
// next begins: the whole gradient arena then does not exist.
//
// A replica's own sum over its microbatches needs a place from the first microbatch's gradient to the last one's, and only then
// are replicas added, in rank order; else sums would have other bits. So matrices share memory where their gradients do not
// live across each other's: the blocks of a step of one microbatch, and the chunks of a breadth-first schedule (Lamy-Poirier
// 2023, arXiv 2211.05953). In all other plans every gradient lives until the end of the step, and there is nothing to share.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/parameters/shard_units.hpp"
#include "schedules/plan/action.hpp"

namespace pipetrain {

struct GradientPool {
  std::vector<std::optional<std::size_t>> begins;  // of each unit in the pool, in elements; none: it is not in the pool
  std::size_t length = 0;
  bool is_empty() const { return length == 0; }
};

// Of a stage that runs these actions, in this order, every step. Empty where the pool and the runs that a replica owns would
// take as much as all gradients. Pure.
GradientPool pool_gradients(const ParameterLayout& layout, const std::vector<ShardUnit>& units, int replicas,
                            const std::vector<schedules::Action>& actions);

}  // namespace pipetrain
