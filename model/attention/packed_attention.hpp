// The attention of a block's heads on this rank, from the packed matrix of queries, keys and values to the heads' output: of
// whole sequences, of slices, or of sequences that ranks share; with the sinks of the heads, if they have any.
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/dropout_site.hpp"
#include "model/blocks/slice_attention.hpp"

namespace pipetrain {

class PackedAttention {
 public:
  struct Saved {
    Tensor qkv;          // [T, packed columns], normed if queries and keys have norms, rotated if the layer rotates
    Tensor heads;        // [T, Hq V], the output of the heads
    Tensor log_sum_exp;  // [batch, Hq, sequence] f32

    void relocate(const Relocation& moved) {
      for (Tensor* const view : {&qkv, &heads, &log_sum_exp}) moved.move(*view);
    }
  };

  PackedAttention(const ModelConfig& config, std::int64_t layer, const TensorParallel& tp);
  void bind(const BoundTensors& tensors);

  // The queries are the context's tokens, the keys those of the sequence up to the last of them.
  SegmentShape shape_of(const BlockContext& context) const;
  // Returns the layer's window by config.json, which says how the layer rotates; 0: none.
  std::int64_t window() const { return window_; }
  // Returns true where the context's tokens are whole sequences.
  static bool has_whole_sequences(const BlockContext& context) {
    return context.slice == nullptr && context.cp.part.is_whole();
  }

  // Computes the heads' output. keys: the qkv of the slices up to this one, or the one of whole sequences. Allocates `heads` in
  // the first arena and log_sum_exp in the second; saved.qkv is given.
  void forward(const BlockContext& context, const SliceKeys& keys, Arena& for_heads, Arena& results, Saved& saved) const;

  struct BackwardArgs {
    const SliceKeys& keys;               // the forward's
    Tensor heads_grad;                   // [T, Hq V]
    Tensor qkv_grad;                     // output; may be the memory of an earlier qkv
    std::optional<Tensor> cos_sin = {};  // AttentionBackwardArgs::cos_sin, for whole sequences
  };
  // Adds to the gradients of the sinks, and writes that of qkv.
  void backward(const BlockContext& context, const BackwardArgs& args, const Saved& saved) const;

  struct CachedArgs {
    Tensor qkv, cache;
    std::int64_t first = 0;  // the position of the first of the queries
  };
  // Returns the heads' output, in the workspace.
  Tensor cached_forward(const BlockContext& context, const CachedArgs& args) const;

 private:
  // Adds the heads' sinks, if there are any, to what attention has written.
  void add_sinks(const BlockContext& context, const Tensor& heads, const Tensor& log_sum_exp) const;

  std::int64_t window_;  // see window()
  AttentionSight sight_;
  float score_scale_;                         // see SegmentShape::scale
  std::int64_t heads_, kv_heads_, head_dim_;  // on this rank
  std::int64_t value_dim_;
  std::int64_t first_head_;  // the first of this rank's heads, counted in the model
  DropoutSite dropout_;      // drops attention probabilities
  bool has_sinks_;
  BoundTensor sinks_;  // [Hq]
};

}  // namespace pipetrain
