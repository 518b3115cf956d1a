// RMSNorms over all heads of queries together and over all heads of keys, between their projection and their rotation (OLMo et
// al. 2024, "2 OLMo 2 Furious"). Heads are spread over the tensor-parallel group, whose ranks add up their sums in rank order.
#pragma once

#include "model/blocks/block_compute.hpp"

namespace pipetrain {

class ProjectionNorms {
 public:
  // One of the two norms, for the backward.
  struct Kept {
    Tensor input;    // [T, heads D], before the norm
    Tensor inv_rms;  // [T] f32
  };
  struct Saved {
    Kept queries, keys;

    void relocate(const Relocation& moved) {
      for (Kept* const kept : {&queries, &keys}) moved.move(kept->input), moved.move(kept->inv_rms);
    }
  };

  explicit ProjectionNorms(const ModelConfig& config);
  void bind(const BoundTensors& tensors);

  // In place on the query and key heads of qkv [T, (Hq + 2 Hkv) D]. What the backward reads is allocated in `memory`.
  void forward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv, Arena& memory, Saved& saved) const;
  // Turns the gradient of forward()'s output into that of its input, in place. Adds to the weights' gradients, where they are
  // trained. What was kept is lost. If several ranks hold copies of a key head, each takes and gives its part of the gradient.
  void backward(const BlockContext& context, const SegmentShape& shape, const Tensor& qkv_grad, const Saved& saved) const;

 private:
  // This rank's columns of one norm in qkv.
  struct Columns {
    const BoundTensor& weight;
    std::int64_t first, count;
    std::int64_t all;     // of the model
    std::int64_t copies;  // neighbouring ranks that hold the same columns
  };
  Columns queries(const SegmentShape& shape) const;
  Columns keys(const BlockContext& context, const SegmentShape& shape) const;
  void normalise(const BlockContext& context, const Columns& columns, const Tensor& qkv, Arena& memory, Kept& kept) const;
  void normalise_back(const BlockContext& context, const Columns& columns, const Tensor& qkv_grad, const Kept& kept) const;

  std::int64_t query_columns_, key_columns_;  // of the model
  std::int64_t kv_heads_;                     // of the model
  float eps_;
  BoundTensor query_weight_, key_weight_;
};

}  // namespace pipetrain
