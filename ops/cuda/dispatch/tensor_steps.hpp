// Runs the updates of whole tensors on a GPU.
#pragma once

#include "ops/cuda/gemm/parallel_matmul.hpp"
#include "ops/cuda/ops_stream.hpp"
#include "ops/settle_moments.hpp"
#include "ops/tensor_update.hpp"

namespace pipetrain::cuda {

// Enqueues on `ops`, which must outlive it, as must `matmul`. Not thread-safe.
class TensorSteps {
 public:
  TensorSteps(OpsStream& ops, ParallelMatmul& matmul) : ops_(ops), matmul_(matmul) {}

  // Throws Error(unavailable) for GaLore, whose singular vectors only the CPU finds.
  void update(const TensorUpdateArgs& args);
  void settle(const SettleMomentsArgs& args);

 private:
  template <class Rule>
  void step(const TensorUpdateArgs& args, const Rule& rule);
  void step(const TensorUpdateArgs& args, const Muon& rule);
  void step(const TensorUpdateArgs& args, const GaLore& rule);

  OpsStream& ops_;
  ParallelMatmul& matmul_;
};

}  // namespace pipetrain::cuda
