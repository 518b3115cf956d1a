// The kernels of updates of whole tensors (ops/tensor_update.hpp). All sums are in fp64, in an order that follows from the
// tensor's shape alone. The caller must make the stream's device current first and check the last CUDA error afterwards.
// scratch: tensor_rule_scratch() bytes, aligned to 256; it is in use until the update's last kernel has run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "ops/settle_moments.hpp"
#include "ops/tensor_update.hpp"

namespace pipetrain::cuda {

std::size_t tensor_rule_scratch(const Shape& weight);

// muon.cu: the two ends of a step, around the Newton-Schulz iteration. direction and update: [R, C] in bf16.
// Updates the momentum, and writes its direction with a Frobenius norm of 1.
void muon_direction(cudaStream_t stream, const TensorUpdateArgs& args, const Muon& rule, const Tensor& direction,
                    void* scratch);
void muon_weights(cudaStream_t stream, const TensorUpdateArgs& args, const Muon& rule, const Tensor& update);

// lamb.cu
void step_tensor(cudaStream_t stream, const TensorUpdateArgs& args, const Lamb& rule, void* scratch);

// factored.cu
void step_tensor(cudaStream_t stream, const TensorUpdateArgs& args, const Adafactor& rule, void* scratch);
void step_tensor(cudaStream_t stream, const TensorUpdateArgs& args, const Came& rule, void* scratch);

// settle_moments.cu: the moments of 1-bit Adam. scratch: settle_moments_scratch() bytes.
std::size_t settle_moments_scratch(std::int64_t elements);
void settle_moments(cudaStream_t stream, const SettleMomentsArgs& args, void* scratch);

}  // namespace pipetrain::cuda
