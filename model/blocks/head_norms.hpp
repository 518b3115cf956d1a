// RMSNorms over each head of queries and keys, between their projection and their rotation (Dehghani et al. 2023, "Scaling
// Vision Transformers to 22 Billion Parameters"): one weight for all query heads, one for all key heads.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class HeadNorms {
 public:
  // One of the two norms, for the backward.
  struct Kept {
    Tensor input;    // [T, heads D], before the norm
    Tensor inv_rms;  // [T heads] f32
  };
  struct Saved {
    Kept queries, keys;

    void relocate(const Relocation& moved) {
      for (Kept* const kept : {&queries, &keys}) moved.move(kept->input), moved.move(kept->inv_rms);
    }
  };

  explicit HeadNorms(const ModelConfig& config)
      : head_dim_(config.head_dim),
        eps_(static_cast<float>(config.norm_eps)),
        offset_(static_cast<float>(config.norm_offset)) {}
  void bind(const BoundTensors& tensors);

  // In place on the query and key heads of qkv [T, (Hq + 2 Hkv) D]. What the backward reads is allocated in `memory`.
  void forward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv, Arena& memory, Saved& saved) const;
  // Turns the gradient of forward()'s output into that of its input, in place. Adds to the weights' gradients, where they are
  // trained. What was kept is lost.
  void backward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv_grad, const Saved& saved) const;

 private:
  // Heads next to each other in qkv, with the norm that is theirs.
  struct Heads {
    const BoundTensor& weight;
    std::int64_t first_column, count;
  };
  Heads queries(const SegmentShape& shape) const { return {query_weight_, 0, shape.heads}; }
  Heads keys(const SegmentShape& shape) const { return {key_weight_, shape.query_cols(), shape.kv_heads}; }
  void normalise(const BlockContext& context, const Heads& heads, const Tensor& qkv, Arena& memory, Kept& kept) const;
  void normalise_back(const BlockContext& context, const Heads& heads, const Tensor& qkv_grad, const Kept& kept) const;

  std::int64_t head_dim_;
  float eps_, offset_;
  BoundTensor query_weight_, key_weight_;
};

}  // namespace pipetrain
