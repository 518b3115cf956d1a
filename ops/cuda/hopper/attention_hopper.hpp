// Causal attention's backward in bf16 and f16 on Hopper GPUs, the same to the bit in every run: dK and dV are sums of one block
// of threads each, dQ is added as integers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>

#include "ops/arguments.hpp"
#include "ops/cuda/hopper/hopper_gpu.hpp"
#include "ops/ops.hpp"

namespace pipetrain::cuda {

// As SegmentAttentionBackwardArgs and AttentionBackwardArgs name them, without dropout.
struct HopperBackward {
  SegmentShape shape;
  Tensor q, kv, dout, out, log_sum_exp;
  Tensor dq;   // of q's type, written; or f32, written or added to
  Tensor dkv;  // f32 [batch R, 2 Hkv D], added to; or of q's type and with kv's columns, of which the last are written
  std::optional<Tensor> documents = {};  // where the keys begin at position 0 and end with the last query
  // Of the rotary that made q and kv of whole sequences without documents: dq and dkv are of what it turned.
  std::optional<Tensor> cos_sin = {};
  Accumulate accumulate_dq = Accumulate::no;
};
// Of a whole sequence.
HopperBackward hopper_backward(const AttentionShape& shape, const AttentionBackwardArgs& args);

// Heads of 64 or 128, queries and keys of a multiple of 128 tokens; the last query sees all keys, the first one the first key.
bool takes_hopper_attention(const SegmentShape& shape, const HopperGpu& gpu);
std::size_t hopper_attention_backward_scratch(const HopperBackward& args, const HopperGpu& gpu);  // bytes
// Throws Error(unavailable) where the driver is too old. Looks at no CUDA error.
void hopper_attention_backward(cudaStream_t stream, const HopperBackward& args, const HopperGpu& gpu, void* scratch);

}  // namespace pipetrain::cuda
