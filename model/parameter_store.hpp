// Gives blocks the weights that their operations read. They may always be there, or be gathered or fetched ahead of use.
#pragma once

#include <cstddef>

#include "core/tensor.hpp"

namespace pipetrain {

// Used by the stage model, on its rank's worker; not thread-safe. Both calls only enqueue.
class ParameterStore {
 public:
  virtual ~ParameterStore() = default;
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // A view of an arena with this block's weights at their offsets (block: its index in ParameterLayout::blocks). They are there
  // once the work that the rank's stream holds has run. Until release(), use the block's own part of the view only. The next
  // view may lie elsewhere. Blocks are acquired in the order they are used, each several times a step; a block may be held more
  // than once.
  virtual Tensor acquire(std::size_t block) = 0;
  // Work that is enqueued on the rank's stream from now on does not read the block's weights.
  virtual void release(std::size_t block) = 0;

 protected:
  ParameterStore() = default;
};

// All weights are always there, in one arena.
class ResidentParameters final : public ParameterStore {
 public:
  explicit ResidentParameters(const Tensor& weights) : weights_(weights) {}
  void set(const Tensor& weights) { weights_ = weights; }
  Tensor acquire(std::size_t) override { return weights_; }
  void release(std::size_t) override {}

 private:
  Tensor weights_;
};

}  // namespace pipetrain
