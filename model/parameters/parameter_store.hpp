// ParameterStore gives blocks the weights that their operations read. The weights may be resident, or gathered
// or fetched ahead of use.
#pragma once

#include <cstddef>
#include <vector>

#include "core/tensor.hpp"
#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Used by the stage model, on its rank's worker; not thread-safe. Both calls only enqueue.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // Returns the block's weights (block: its index in ParameterLayout::blocks), in the order of
  // BlockParameters::tensors. They are valid once the work that the rank's stream holds has run, and until
  // release(). The next acquire() may return other memory. Blocks are acquired in the order of use, each
  // several times a step; a block may be held more than once.
  virtual const std::vector<Tensor>& acquire(std::size_t block) = 0;
  // Promises that work enqueued on the rank's stream from now on does not read the block's weights.
  virtual void release(std::size_t block) = 0;

 protected:
  ParameterStore() = default;
};

// Views of the layout's tensors in a flat arena, by block; without memory if the arena has none.
inline std::vector<std::vector<Tensor>> weight_views(const ParameterLayout& layout, const Tensor& arena) {
  std::vector<std::vector<Tensor>> blocks;
  for (const BlockParameters& block : layout.blocks) {
    auto& views = blocks.emplace_back();
    for (const StoredTensor& tensor : block.tensors) {
      char* data = static_cast<char*>(arena.data);
      views.push_back({data == nullptr ? nullptr : data + tensor.offset * size_of(arena.dtype), tensor.shape, arena.dtype});
    }
  }
  return blocks;
}

// ResidentParameters keeps all weights in one arena.
class ResidentParameters final : public ParameterStore {
 public:
  // weights: [layout.weight_elements]
  ResidentParameters(const ParameterLayout& layout, const Tensor& weights) : views_(weight_views(layout, weights)) {}
  const std::vector<Tensor>& acquire(std::size_t block) override { return views_.at(block); }
  void release(std::size_t) override {}

 private:
  std::vector<std::vector<Tensor>> views_;
};

}  // namespace pipetrain
