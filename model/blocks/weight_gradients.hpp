// The one place every matrix's gradient goes through: computed now (action B) or kept for later (I, then W). Both ways run the
// same operation on the same values, and each tensor's gradients in the same order, so they give the same bits.
#pragma once

#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "core/buffer.hpp"
#include "ops/ops.hpp"

namespace pipetrain {

// A gradient still to be computed, of matrices in the activations' type or in 8 bits. Its tensors stay valid until it has been.
struct KeptGradient {
  std::variant<WeightGradArgs, Fp8MatmulArgs> product;
  bool last = true;  // of the microbatch's products for this matrix
};

// Callback after each matrix gradient: one microbatch's part has been added to it in the stream's order.
using GradientAdded = std::function<void(const Tensor& dw)>;

void compute(Ops& ops, const KeptGradient& gradient, const GradientAdded& added);

// Of one action on one microbatch. Not thread-safe.
class WeightGradients {
 public:
  // Computes each gradient where it is added; what it reads lives in `workspace`.
  static WeightGradients immediate(Ops& ops, Arena& workspace, Accumulate accumulate, const GradientAdded& added) {
    return WeightGradients(ops, workspace, accumulate, nullptr, added);
  }
  // Appends each gradient to `kept`; what it reads lives in `pending` until W.
  static WeightGradients deferred(Ops& ops, Arena& pending, Accumulate accumulate, std::vector<KeptGradient>& kept) {
    return WeightGradients(ops, pending, accumulate, &kept, {});
  }

  bool defers() const { return kept_ != nullptr; }
  // For part of a microbatch's tokens, where a block takes them in several: each matrix is added once a part, in their order.
  WeightGradients of_part(bool first, bool last) const;
  // Memory for a matrix's input or output gradient that will be added below; as with any arena, it ends with the caller's
  // ArenaScope, if that is of the same arena.
  Tensor allocate(const Shape& shape, DType dtype) { return memory_.allocate(shape, dtype); }
  Arena& memory() { return memory_; }
  // Memory of kept values of this shape that nothing reads any more, for a gradient that waits for W; without a shape where
  // there is none.
  Tensor take_place(const Shape& shape);
  void leave_place(const Tensor& values) { left_ = values; }

  // Once a matrix and part, without `accumulate`, which is the microbatch's.
  void add(WeightGradArgs args);
  // The same of a = dy and b = x in 8 bits, out = dw; without addend.
  void add(Fp8MatmulArgs args);
  // add(), and the gradient of what the column-parallel matrix w was applied to, summed over the ranks into dx.
  void add_and_scatter(BackwardScatterArgs args);

 private:
  WeightGradients(Ops& ops, Arena& memory, Accumulate accumulate, std::vector<KeptGradient>* kept, GradientAdded added)
      : ops_(ops), memory_(memory), accumulate_(accumulate), kept_(kept), added_(std::move(added)) {}

  void add_or_keep(const std::variant<WeightGradArgs, Fp8MatmulArgs>& product);

  Ops& ops_;
  Arena& memory_;
  Accumulate accumulate_;
  std::vector<KeptGradient>* kept_;
  GradientAdded added_;
  bool last_ = true;  // see KeptGradient
  Tensor left_;
};

}  // namespace pipetrain
