// The kernels of routed experts, as functions that launch them on a CUDA stream. Shapes and meaning as in
// ops/arguments/experts.hpp; otherwise as ops/cuda/kernels.hpp. Products of 16-bit types on Hopper GPUs are in
// ops/cuda/hopper/grouped_products.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ops/arguments/all.hpp"

namespace pipetrain::cuda {

// route.cu. Throws Error(unavailable) for more than 1,024 experts.
std::size_t route_scratch(const RouteArgs& args);  // bytes
void route(cudaStream_t stream, const RouteArgs& args, void* scratch);
void count_experts(cudaStream_t stream, const CountExpertsArgs& args);

// route_backward.cu
std::size_t route_backward_scratch(const RouteBackwardArgs& args);  // bytes
void route_backward(cudaStream_t stream, const RouteBackwardArgs& args, void* scratch);

// expert_rows.cu
void gather_rows(cudaStream_t stream, const GatherRowsArgs& args);
// out = the sum of each token's rows, plus addend and residual; one rounding.
struct RowSums {
  Tensor rows;                     // [R, H]
  Tensor places;                   // [T, C] i32
  std::optional<Tensor> addend;    // [T, H] f32
  std::optional<Tensor> residual;  // [T, H], of rows' type; may be out's memory
  Tensor out;                      // [T, H], of rows' type or f32
};
void sum_rows(cudaStream_t stream, const RowSums& sums);
void weigh_rows(cudaStream_t stream, const WeighRowsArgs& args);

// weighed_swiglu.cu
void weighed_swiglu_backward(cudaStream_t stream, const WeighedSwigluBackwardArgs& args);  // dweights: of this rank's columns

// send_tokens.cu and sort_received.cu. sort_received throws Error(unavailable) for more than 1,024 experts of one rank.
std::size_t send_tokens_scratch(const SendTokensArgs& args);  // bytes
void send_tokens(cudaStream_t stream, const SendTokensArgs& args, void* scratch);
std::size_t sort_received_scratch(const SortReceivedArgs& args);  // bytes
void sort_received(cudaStream_t stream, const SortReceivedArgs& args, void* scratch);

// expert_bias.cu
void add_expert_bias(cudaStream_t stream, const ExpertBiasArgs& args);
void expert_bias_backward(cudaStream_t stream, const ExpertBiasBackwardArgs& args);

// sigmoid.cu
void sigmoid(cudaStream_t stream, const SigmoidArgs& args);
void sigmoid_backward(cudaStream_t stream, const SigmoidBackwardArgs& args);

// grouped_matmul.cu: any device and type
void grouped_matmul(cudaStream_t stream, const GroupedMatmulArgs& args);
void grouped_weight_grad(cudaStream_t stream, const GroupedWeightGradArgs& args);

}  // namespace pipetrain::cuda
