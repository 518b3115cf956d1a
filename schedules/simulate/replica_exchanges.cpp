#include "schedules/simulate/replica_exchanges.hpp"

#include <algorithm>

namespace pipetrain::schedules {

ReplicaExchanges::ReplicaExchanges(const std::vector<ChunkCost>& costs, double optimizer, bool sums_beside)
    : sums_beside_(sums_beside) {
  double published = 0;
  for (const ChunkCost& cost : costs) {
    published += cost.publish_weights;
    chunks_.push_back({cost.overlapped_reduce, std::max(0.0, published - optimizer)});
  }
}

double ReplicaExchanges::time_of(const Action& action, double start, double time) {
  Chunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  if (action.kind == ActionKind::forward && action.microbatch == 0) return std::max(time, chunk.weights_at - start);
  if (gives_weight_grad(action.kind)) chunk.backward_start = start;
  if (action.kind != ActionKind::reduce_grads) return time;
  const double begin = std::max(sums_free_at_, sums_beside_ ? chunk.backward_start : start);
  sums_free_at_ = begin + chunk.overlapped_reduce;
  return time + std::max(0.0, sums_free_at_ - start);
}

}  // namespace pipetrain::schedules
