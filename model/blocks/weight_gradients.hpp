// WeightGradients receives every matrix's gradient, and computes it now (action B) or keeps it for later (I,
// then W). Both ways run the same operation on the same values, and add each tensor's gradients in the same
// order, so they give the same bits.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/buffer.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// The gradient of the matrices of several targets, which are parts of one product dy^T x: a target's are some rows of dy^T and
// some columns of x. Where x has not been multiplied by the weights of a norm yet, the product is.
struct TargetGradArgs {
  Tensor dy;                         // [T, N]
  Tensor x;                          // [T, K]
  Tensor product;                    // [N, K] f32, scratch
  std::vector<MatrixBlock> targets;  // the gradients' places in the product, f32
  // As in AddBlocksArgs.
  std::optional<Tensor> factors = {};
  float offset = 0;
  Accumulate accumulate = Accumulate::yes;
};

// The product that computes a matrix's gradient: in the activations' type, in 8 bits, or of the matrices of all experts.
using GradientProduct = std::variant<WeightGradArgs, Fp8MatmulArgs, GroupedWeightGradArgs, TargetGradArgs>;

// A gradient that is still to be computed. Its tensors stay valid until then.
struct KeptGradient {
  GradientProduct product;
  bool last = true;  // true for the microbatch's last product for this matrix
};

// Called after each matrix gradient, once one microbatch's contribution has been enqueued.
using GradientAdded = std::function<void(const Tensor& dw)>;

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added);

// The weight gradients of one action on one microbatch. Not thread-safe.
class WeightGradients {
 public:
  // Computes each gradient as it is added; its factors live in `workspace`.
  static WeightGradients immediate(Ops& ops, Arena& workspace, Accumulate accumulate, const GradientAdded& added) {
    return WeightGradients(ops, workspace, accumulate, nullptr, added);
  }
  // Appends each gradient to `kept`; its factors live in `pending` until W.
  static WeightGradients deferred(Ops& ops, Arena& pending, Accumulate accumulate, std::vector<KeptGradient>& kept) {
    return WeightGradients(ops, pending, accumulate, &kept, {});
  }

  bool defers() const { return kept_ != nullptr; }
  // The same sink for some of a microbatch's tokens, if a block takes them in several parts: each matrix is
  // added once a part, in order.
  WeightGradients of_part(bool first, bool last) const;
  // The same sink without GradientAdded, for a matrix whose gradient may be a part of a sum over tensor-parallel ranks.
  WeightGradients unannounced() const { return of_part(true, false); }
  // Allocates a matrix's input or output gradient that will be added below. As with any arena, the memory is
  // released by the caller's ArenaScope, if that is of the same arena.
  Tensor allocate(const Shape& shape, DType dtype) { return memory_.allocate(shape, dtype); }
  Arena& memory() { return memory_; }
  // Returns memory of kept values of this shape that nothing reads any more, for a gradient that waits for W;
  // without a shape if there is none.
  Tensor take_place(const Shape& shape);
  void leave_place(const Tensor& values) { left_ = values; }

  // Computes nothing for a gradient without a place (has_place()). Call it once for each matrix and part; leave
  // args.accumulate unset, since the microbatch decides it.
  void add(WeightGradArgs args);
  // Adds a product of a = dy and b = x in 8 bits, out = dw; args has no addend.
  void add(Fp8MatmulArgs args);
  void add_grouped(GroupedWeightGradArgs args);
  // Every target has a place. The scratch tensors stay valid as long as dy and x.
  void add_targets(TargetGradArgs args);
  // Calls add(), and sums the gradient of the column-parallel matrix w's input over the ranks into dx.
  void add_and_scatter(BackwardScatterArgs args);

 private:
  WeightGradients(Ops& ops, Arena& memory, Accumulate accumulate, std::vector<KeptGradient>* kept, GradientAdded added)
      : ops_(ops), memory_(memory), accumulate_(accumulate), kept_(kept), added_(std::move(added)) {}

  void add_or_keep(const GradientProduct& product);

  Ops& ops_;
  Arena& memory_;
  Accumulate accumulate_;
  std::vector<KeptGradient>* kept_;
  GradientAdded added_;
  bool last_ = true;  // see KeptGradient
  Tensor left_;
};

}  // namespace pipetrain
