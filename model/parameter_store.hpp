// Where blocks get the weights that their operations read: always there, gathered ahead of use, or fetched from elsewhere.
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

  // A view in which the weights of this block (its index in ParameterLayout::blocks) are at their offsets in the arena once
  // what the rank's stream holds has run; only the block's own part may be touched, until release(). The view may lie elsewhere
  // the next time. Blocks are acquired in the order they are used, each several times a step; a block may be held more than
  // once.
  virtual Tensor acquire(std::size_t block) = 0;
  // What the rank's stream holds from now on does not read the block's weights.
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
