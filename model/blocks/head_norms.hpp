// RMSNorms over each head of queries and keys, between their projection and their rotation (Dehghani et al. 2023, "Scaling
// Vision Transformers to 22 Billion Parameters"): one weight for all query heads, one for all key heads.
#pragma once

#include <optional>

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

  struct ForwardArgs {
    Tensor qkv;                    // [T, (Hq + 2 Hkv) D], in place
    std::optional<Tensor> angles;  // of the rotation that follows; see RotaryArgs::cos_sin
    Arena& memory;                 // of what the backward reads
  };
  // Norms the query and key heads, and rotates them if there are angles.
  void forward(const BlockContext& context, const SegmentShape& shape, const ForwardArgs& args, Saved& saved) const;
  // Turns the gradient of the normed heads into that of forward()'s input, in place; the rotation's backward comes before it.
  // Adds to the weights' gradients, where they are trained. What was kept is lost.
  void backward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv_grad, const Saved& saved) const;

 private:
  static HeadNorm norm_of(const BoundTensor& weight, const Kept& kept) { return {weight.weight, kept.input, kept.inv_rms}; }

  std::int64_t head_dim_;
  float eps_, offset_;
  BoundTensor query_weight_, key_weight_;
};

}  // namespace pipetrain
