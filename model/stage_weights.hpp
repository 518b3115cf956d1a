// StageWeights binds the weights of a stage's blocks for each use, wherever they are kept. Not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "model/fp8_weights.hpp"
#include "model/model_chunk.hpp"
#include "model/parameters/gradient_places.hpp"
#include "model/parameters/parameter_store.hpp"

namespace pipetrain {

class StageWeights {
 public:
  // The layout outlives it.
  StageWeights(const StageModelSpec& spec, const ParameterLayout& layout)
      : layout_(layout),
        dtype_(spec.numerics.precision.compute),
        fp8_(layout, spec.config.layers, spec.numerics, spec.gathers_weights) {}

  // Binds places without memory, of which a measuring run learns sizes.
  void bind_measuring(ChunkBlock& block, const std::vector<Tensor>& weights, const std::vector<Tensor>& grads) const {
    block.compute->bind({layout_.blocks[block.index], weights, grads, fp8_.of(block.index)});
  }
  // See StageModel::bind(). Allocates the memory of weights in 8 bits, which `ops` make; it outlives this object.
  void bind(ParameterStore& store, GradientPlaces grads, Ops& ops) {
    store_ = &store;
    grads_ = std::move(grads);
    ops_ = &ops;
    if (fp8_.bytes() > 0) fp8_.allocate(ops.stream().device());
  }
  // See StageModel::read_weights().
  void read(ParameterStore& store) {
    if (&store != store_) fp8_.weights_replaced();
    store_ = &store;
  }
  // See StageModel::weights_loaded().
  void loaded() { fp8_.weights_replaced(); }

  std::size_t fp8_bytes() const { return fp8_.bytes(); }
  // The trained weights have changed since the last step.
  void begin_step() { fp8_.begin_step(); }
  // Returns the gradients that a step begins with at zero, of one chunk.
  const std::vector<Tensor>& zeroed_grads(std::size_t chunk) const { return grads_.zeroed[chunk]; }

  // Holds the block's weights while `use` enqueues work that reads them.
  template <class Use>
  void with(ChunkBlock& block, Use use) {
    if (store_ == nullptr) return use(*block.compute);  // measuring
    const std::vector<Tensor>& weights = store_->acquire(block.index);
    bind_if_moved(block, weights);
    fp8_.update(*ops_, block.index, weights);
    use(*block.compute);
    store_->release(block.index);
  }

 private:
  void bind_if_moved(ChunkBlock& block, const std::vector<Tensor>& weights) const;

  const ParameterLayout& layout_;
  DType dtype_;
  Fp8Weights fp8_;
  Ops* ops_ = nullptr;               // set with store_
  ParameterStore* store_ = nullptr;  // null: measuring
  GradientPlaces grads_;
};

}  // namespace pipetrain
