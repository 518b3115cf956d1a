#include "model/stage_weights.hpp"

#include <algorithm>
#include <cassert>

namespace pipetrain {

void StageWeights::bind_if_moved(ChunkBlock& block, const std::vector<Tensor>& weights) const {
  const bool same_place = std::equal(weights.begin(), weights.end(), block.bound.begin(), block.bound.end(),
                                     [](const Tensor& a, const Tensor& b) { return a.data == b.data; });
  if (same_place) return;
  assert(weights.front().dtype == dtype_);
  block.compute->bind({layout_.blocks[block.index], weights, grads_.blocks[block.index], fp8_.of(block.index)});
  block.bound = weights;
}

}  // namespace pipetrain
