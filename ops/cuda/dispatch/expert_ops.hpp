// Runs the operations of routed experts on a GPU.
#pragma once

#include "ops/cuda/gemm/parallel_matmul.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/cuda/ops_stream.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// Has the operations of Ops with the same names. Enqueues on `ops`, which must outlive it, as must `matmul`. Not thread-safe.
class ExpertOps {
 public:
  ExpertOps(OpsStream& ops, ParallelMatmul& matmul, const HopperGpu& gpu);

  void route(const RouteArgs& args);
  void route_backward(const RouteBackwardArgs& args);
  void count_experts(const CountExpertsArgs& args);
  void gather_rows(const GatherRowsArgs& args);
  void sum_rows(const SumRowsArgs& args);
  void weigh_rows(const WeighRowsArgs& args);
  void weighed_swiglu_backward(const WeighedSwigluBackwardArgs& args);
  void grouped_matmul(const GroupedMatmulArgs& args);
  void grouped_fp8_matmul(const GroupedFp8MatmulArgs& args);
  void grouped_weight_grad(const GroupedWeightGradArgs& args);
  void send_tokens(const SendTokensArgs& args);
  void sort_received(const SortReceivedArgs& args);
  void exchange_rows(const ExchangeRowsArgs& args);

 private:
  OpsStream& ops_;
  ParallelMatmul& matmul_;
  HopperGpu gpu_;
  Buffer tickets_;
};

}  // namespace pipetrain::cuda
