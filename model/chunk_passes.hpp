// ChunkPasses runs the forward and the backward of a stage's chunks, block by block. Not thread-safe.
#pragma once

#include <utility>

#include "model/key_gradients.hpp"
#include "model/model_chunk.hpp"
#include "model/stage_weights.hpp"

namespace pipetrain {

// The half of a backward that is left for W.
enum class WeightHalf { now, deferred };

class ChunkPasses {
 public:
  // All outlive it.
  ChunkPasses(const ModelConfig& config, StageWeights& weights, const KeyGradients& key_gradients)
      : config_(config), weights_(weights), key_gradients_(key_gradients) {}

  void listen(GradientListener listener) { listener_ = std::move(listener); }

  // The context is that of the stage; each block gets its own from it.
  void forward(const BlockContext& context, ModelChunk& chunk, const ForwardArgs& args, ChunkSlot& slot);
  void backward(const BlockContext& context, ModelChunk& chunk, const BackwardArgs& args, ChunkSlot& slot,
                Accumulate accumulate, WeightHalf half);
  void weight_grad(Ops& ops, const ModelChunk& chunk, ChunkSlot& slot) const;

 private:
  // Returns the context of the chunk's block number i; it points to `slice` if microbatches pass in slices.
  BlockContext of_block(BlockContext context, const ModelChunk& chunk, std::size_t i, const ChunkSlot& slot,
                        SliceContext& slice) const;
  Tensor bias_of(const Tensor& biases, std::int64_t routed) const;
  void open(const ChunkBlock& block) const {
    if (listener_.opens) listener_.opens(block.index);
  }
  void close(const ChunkBlock& block) const {
    if (listener_.closes) listener_.closes(block.index);
  }

  const ModelConfig& config_;
  StageWeights& weights_;
  const KeyGradients& key_gradients_;
  GradientListener listener_;
};

}  // namespace pipetrain
