#include "ops/cuda/dispatch/tensor_steps.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "ops/cuda/optimizers/tensor_rules.hpp"
#include "ops/newton_schulz.hpp"

namespace pipetrain::cuda {
namespace {

// The matrices of the iteration X <- a X + (b A + c A^2) X with A = X X^T, or X^T X of a tall matrix, in scratch memory, bf16.
// Each begins at a multiple of its rows' length, which is the alignment that products count on.
struct Iteration {
  Iteration(const Tensor& scratch, const Shape& shape) : wide(shape[0] <= shape[1]) {
    const std::int64_t side = std::min(shape[0], shape[1]);
    auto* next = static_cast<char*>(scratch.data);
    const auto take = [&](const Shape& own) {
      const Tensor taken{next, own, DType::bf16};
      next += taken.bytes();
      return taken;
    };
    x = take(shape);
    y = take(shape);
    gram = take({side, side});
    factor = take({side, side});
  }

  // gram = A
  GemmOperands square() const { return {.product = wide ? Product::y : Product::dw, .a = x, .b = x, .out = gram}; }
  // factor = b A + c A^2
  GemmOperands polynomial() const {
    return {.product = Product::y,
            .a = gram,
            .b = gram,
            .addend = gram.data,
            .out = factor,
            .product_factor = newton_schulz_c,
            .addend_factor = newton_schulz_b};
  }
  // y = a X + factor X, or a X + X factor. The factor is symmetric.
  GemmOperands next() const {
    return {.product = wide ? Product::dx : Product::y,
            .a = wide ? factor : x,
            .b = wide ? x : factor,
            .addend = x.data,
            .out = y,
            .addend_factor = newton_schulz_a};
  }

  bool wide;
  Tensor x, y, gram, factor;
};

}  // namespace

void TensorSteps::update(const TensorUpdateArgs& args) {
  std::visit([&](const auto& rule) { step(args, rule); }, args.rule);
}

void TensorSteps::settle(const SettleMomentsArgs& args) {
  void* const scratch = ops_.scratch(settle_moments_scratch(args.second.elements()));
  ops_.enqueue("settling second moments", [&](cudaStream_t native) { settle_moments(native, args, scratch); });
}

template <class Rule>
void TensorSteps::step(const TensorUpdateArgs& args, const Rule& rule) {
  void* const scratch = ops_.scratch(tensor_rule_scratch(args.weight.shape));
  ops_.enqueue("the optimizer's update of a tensor", [&](cudaStream_t native) { step_tensor(native, args, rule, scratch); });
}

void TensorSteps::step(const TensorUpdateArgs& args, const Muon& rule) {
  void* const scratch = ops_.scratch(tensor_rule_scratch(args.weight.shape));
  Iteration matrices(args.scratch, args.weight.shape);
  ops_.enqueue("Muon's momentum", [&](cudaStream_t native) { muon_direction(native, args, rule, matrices.x, scratch); });
  for (int i = 0; i < newton_schulz_steps; ++i) {
    matmul_.multiply(matrices.square());
    matmul_.multiply(matrices.polynomial());
    matmul_.multiply(matrices.next());
    std::swap(matrices.x, matrices.y);
  }
  ops_.enqueue("Muon's update", [&](cudaStream_t native) { muon_weights(native, args, rule, matrices.x); });
}

void TensorSteps::step(const TensorUpdateArgs&, const GaLore&) {
  throw Error(ErrorKind::unavailable,
              "GPUs find no singular vectors of gradients; use another optimizer than galore, or the CPU");
}

}  // namespace pipetrain::cuda
