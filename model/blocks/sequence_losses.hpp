// The part of a head that makes a preference loss of its tokens' losses: sums over whole sequences, which may pass in slices or
// be shared by ranks, and the scale of each token's gradient, which depends on the whole sequences of its pair.
#pragma once

#include <optional>

#include "model/blocks/block_compute.hpp"
#include "ops/preference.hpp"

namespace pipetrain {

class SequenceLosses {
 public:
  // The values of one microbatch, or of a slice of it, from its forward to its backward.
  struct Saved {
    Tensor targets;  // [T] i32, with context labels
    Tensor sums;     // [batch, 2] f64: of this rank's part of this slice
    Tensor whole;    // [batch, 2] f64: of whole sequences; known from the last slice's forward on
    Tensor facts;    // [batch, preference_facts] f64

    void relocate(const Relocation& moved) {
      for (Tensor* const view : {&targets, &sums, &whole, &facts}) moved.move(*view);
    }
  };

  // formula: absent for other losses, which use none of the functions below.
  explicit SequenceLosses(const std::optional<PreferenceFormula>& formula) : formula_(formula) {}
  bool are_used() const { return formula_.has_value(); }

  // Returns the targets of the cross-entropy, which stay valid until the backward.
  Tensor begin(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved) const;
  // Ends a forward: writes args.loss_sum. token_losses: [T] f32. earlier: the values of the microbatch's slices before this
  // one. A forward without args.preference_facts has no backward.
  void finish(const BlockContext& context, const ForwardArgs& args, const Tensor& token_losses,
              const std::vector<const Saved*>& earlier, Saved& saved) const;
  // Returns the factor of each token's gradient, [T] f32 in the workspace.
  Tensor token_scales(const BlockContext& context, const Saved& saved) const;

 private:
  std::optional<PreferenceFormula> formula_;
};

}  // namespace pipetrain
