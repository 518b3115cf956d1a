// The one place every matrix's gradient goes through: computed now (action B) or kept for later (I, then W). Both ways run the
// same operation on the same values, and each tensor's gradients in the same order, so they give the same bits.
#pragma once

#include <vector>

#include "core/buffer.hpp"
#include "model/ops.hpp"

namespace pipetrain {

// A gradient still to be computed. Its tensors stay valid until it has been.
struct KeptGradient {
  Tensor dy, x, dw;
};

void compute(Ops& ops, const KeptGradient& gradient);

// Of one action on one microbatch. Not thread-safe.
class WeightGradients {
 public:
  // Computes each gradient where it is added; what it reads lives in `workspace`.
  static WeightGradients immediate(Ops& ops, Arena& workspace) { return WeightGradients(ops, workspace, nullptr); }
  // Appends each gradient to `kept`; what it reads lives in `pending` until W.
  static WeightGradients deferred(Ops& ops, Arena& pending, std::vector<KeptGradient>& kept) {
    return WeightGradients(ops, pending, &kept);
  }

  bool defers() const { return kept_ != nullptr; }
  // Memory for a matrix's input or output gradient that will be added below; as with any arena, it ends with the caller's
  // ArenaScope, if that is of the same arena.
  Tensor allocate(const Shape& shape, DType dtype) { return memory_.allocate(shape, dtype); }
  Arena& memory() { return memory_; }

  // dw [N, K] += dy [T, N]^T x [T, K]
  void add(const Tensor& dy, const Tensor& x, const Tensor& dw);

 private:
  WeightGradients(Ops& ops, Arena& memory, std::vector<KeptGradient>* kept) : ops_(ops), memory_(memory), kept_(kept) {}

  Ops& ops_;
  Arena& memory_;
  std::vector<KeptGradient>* kept_;
};

}  // namespace pipetrain
