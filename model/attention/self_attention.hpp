// SelfAttention is what all kinds of attention blocks have in common: the heads' attention, its output projection and the
// residual. A kind adds how queries, keys and values are made.
#pragma once

#include "model/attention/packed_attention.hpp"
#include "model/blocks/block_compute.hpp"
#include "model/blocks/kept_memory.hpp"
#include "model/blocks/residual_projection.hpp"

namespace pipetrain {

class SelfAttention : public BlockCompute {
 public:
  void forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const final;

 protected:
  struct HeadsSaved : Saved {
    PackedAttention::Saved attention;
    ResidualProjection::Saved out;

    void relocate(const Relocation& moved) override {
      attention.relocate(moved);
      out.relocate(moved);
    }
  };

  // out_bias: of the output projection, if it has one.
  SelfAttention(const ModelConfig& config, const BlockParameters& parameters, const TensorParallel& tp,
                std::optional<TensorRole> out_bias = {});

  // Runs the forward up to the heads' output.
  virtual void attend(const BlockContext& context, const Tensor& input, const KeptMemory& memory, HeadsSaved& saved) const = 0;

  // Returns the keys and values of the slices up to this one, or those of the whole sequence if it is not sliced.
  static SliceKeys slice_keys(const BlockContext& context, const HeadsSaved& saved);
  // Returns the table's rotations from the slice's first position on, or all of them if positions restart with each document.
  static Tensor angles(const BlockContext& context, const Tensor& table);

  PackedAttention attention_;
  ResidualProjection out_;
};

}  // namespace pipetrain
