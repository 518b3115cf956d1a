// The shared expert of a routed block: a gated MLP that all tokens pass through (Dai et al. 2024, "DeepSeekMoE"). A sigmoid
// gate of one number a token may scale its output (Qwen team 2024, "Qwen2 Technical Report", section 2.2.2).
#pragma once

#include "model/blocks/block_compute.hpp"
#include "model/blocks/kept_memory.hpp"
#include "model/blocks/low_rank_adapter.hpp"

namespace pipetrain {

class SharedExpert {
 public:
  struct Saved {
    Tensor gates;      // [T] f32; without a shape where there is no gate
    Tensor projected;  // [T, 2I]
    Tensor inner;      // [T, I], times the gates; without a shape if the backward computes it again
    LowRankAdapter::Saved in_adapter, out_adapter;  // without tensors where there are no adapters

    void relocate(const Relocation& moved) {
      for (Tensor* const view : {&gates, &projected, &inner}) moved.move(*view);
      in_adapter.relocate(moved);
      out_adapter.relocate(moved);
    }
  };

  SharedExpert(const ModelConfig& config, const Block& block, const TensorParallel& tp)
      : has_gate_(config.experts.shared_gate),
        in_adapter_(LowRankAdapter::of(config, block, TensorRole::shared_in_weight, tp)),
        out_adapter_(LowRankAdapter::of(config, block, TensorRole::shared_out_weight, tp)) {}
  void bind(const BoundTensors& tensors);

  // Computes the gates and the first matrix's output from normed [T, H].
  void expand(const BlockContext& context, const Tensor& normed, const KeptMemory& memory, Saved& saved) const;
  // Returns this rank's share of the gated output, [T, H] f32, in the workspace. results: lasts until the backward.
  Tensor output(const BlockContext& context, const KeptMemory& memory, Arena& results, Saved& saved) const;

  struct BackwardArgs {
    Tensor output_grad;  // [T, H] of all ranks; must stay valid as long as WeightGradients requires, as must normed
    Tensor normed;       // [T, H]
    Tensor router_grad;  // [Tr, H]: the gradient of this rank's rows of normed through the gate is added to it
  };
  // Returns this rank's share of the gradient of normed through the matrices, [T, H] f32, in the workspace. The gradient of
  // saved.projected is written over it.
  Tensor backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients, const Saved& saved) const;

 private:
  // Returns the input of the last matrix, [T, I], in `memory`.
  Tensor activated(const BlockContext& context, const Saved& saved, Arena& memory) const;
  // Writes the gradient of saved.projected over it, and adds the gradients of gate_backward(). inner_grad: [T, I].
  void activated_backward(const BlockContext& context, const BackwardArgs& args, const Tensor& inner_grad,
                          WeightGradients& gradients, const Saved& saved) const;
  // Adds the gradients of the gate's matrix and of its input.
  void gate_backward(const BlockContext& context, const BackwardArgs& args, const Tensor& gates_grad,
                     WeightGradients& gradients, const Saved& saved) const;

  // Computes out += the adapter's product with in, for all rows and this rank's columns.
  void add_adapter(const BlockContext& context, const LowRankAdapter& adapter, const Tensor& in, const Tensor& out,
                   const LowRankAdapter::Saved& saved) const;

  bool has_gate_;
  std::optional<LowRankAdapter> in_adapter_, out_adapter_;
  BoundTensor in_, out_, gate_;  // [2I, H], [H, I] and [1, H]
};

}  // namespace pipetrain
