#include "ops/cuda/dispatch/attention_ops.hpp"

#include <utility>

#include "core/buffer.hpp"
#include "ops/cuda/attention/attention_choice.hpp"
#include "ops/cuda/attention/copy_heads.hpp"
#include "ops/cuda/attention/latent_kernels.hpp"
#include "ops/cuda/hopper/attention_hopper.hpp"
#include "ops/cuda/kernels.hpp"

namespace pipetrain::cuda {

namespace {

// The matrices of an attention whose heads are filled up to one size, in memory of their own.
struct PaddedMatrices {
  Tensor q;     // [batch queries, Hq size]
  Tensor kv;    // [batch R, 2 Hkv size]
  Tensor out;   // [batch queries, Hq size]
  Tensor dout;  // as out; this and the next two in the backward alone
  Tensor dq, dkv;
};

Tensor heads_matrix(Arena& memory, const Tensor& of, std::int64_t cols) { return memory.allocate({of.rows(), cols}, of.dtype); }

// size: of a head
PaddedMatrices padded_matrices(const SegmentShape& shape, std::int64_t size, const AttentionArgs& args, Arena& memory) {
  return {.q = heads_matrix(memory, args.q, shape.heads * size),
          .kv = heads_matrix(memory, args.kv, 2 * shape.kv_heads * size),
          .out = heads_matrix(memory, args.out, shape.heads * size),
          .dout = {},
          .dq = {},
          .dkv = {}};
}
PaddedMatrices padded_matrices(const SegmentShape& shape, std::int64_t size, const AttentionBackwardArgs& args, Arena& memory) {
  return {.q = heads_matrix(memory, args.q, shape.heads * size),
          .kv = heads_matrix(memory, args.kv, 2 * shape.kv_heads * size),
          .out = heads_matrix(memory, args.out, shape.heads * size),
          .dout = heads_matrix(memory, args.dout, shape.heads * size),
          .dq = heads_matrix(memory, args.dq, shape.heads * size),
          .dkv = heads_matrix(memory, args.dkv, 2 * shape.kv_heads * size)};
}

HeadColumns queries_in(const SegmentShape& shape, const Tensor& q) { return {q, 0, shape.heads, shape.head_dim}; }
HeadColumns outputs_in(const SegmentShape& shape, const Tensor& out) { return {out, 0, shape.heads, shape.value_dim()}; }
HeadColumns keys_in(const SegmentShape& shape, const Tensor& kv) {
  return {kv, kv.cols() - shape.key_value_cols(), shape.kv_heads, shape.head_dim};
}
HeadColumns values_in(const SegmentShape& shape, const Tensor& kv) {
  return {kv, kv.cols() - shape.kv_heads * shape.value_dim(), shape.kv_heads, shape.value_dim()};
}

}  // namespace

AttentionOps::AttentionOps(OpsStream& ops, const HopperGpu& gpu, bool deterministic)
    : ops_(ops), padded_(ops.stream()), gpu_(gpu), cudnn_(ops.stream().device_index(), deterministic) {}

void AttentionOps::attention(const SegmentShape& wanted, const AttentionArgs& args) {
  const SegmentShape shape = needed_pattern(wanted, args.documents.has_value());
  const std::int64_t size = padded_head_size(shape, args);
  size > 0 ? run_padded(size, shape, args) : run(shape, args);
}

void AttentionOps::run(const SegmentShape& shape, const AttentionArgs& args) {
  const AttentionKernel kernel = attention_kernel(shape, args);
  if (kernel == AttentionKernel::window_and_sinks) {
    run(window_part(shape), args);
    return ops_.enqueue("attention's sinks", [&](cudaStream_t stream) { add_attention_mma(stream, sinks_part(shape), args); });
  }
  ops_.enqueue("attention", [&](cudaStream_t stream) {
    if (kernel == AttentionKernel::cudnn)
      return cudnn_.forward(stream, shape, args, [&](std::size_t bytes) { return ops_.scratch(bytes); });
    if (kernel == AttentionKernel::mma) return cuda::attention_mma(stream, shape, args);
    cuda::attention(stream, shape, args);
  });
}

void AttentionOps::run_padded(std::int64_t size, const SegmentShape& shape, const AttentionArgs& args) {
  Arena measuring = Arena::measuring();
  padded_matrices(shape, size, args, measuring);
  Arena memory(padded_.scratch(measuring.used()), measuring.used(), "attention with padded heads");
  const PaddedMatrices of = padded_matrices(shape, size, args, memory);
  const SegmentShape padded = with_padded_heads(shape, size);
  ops_.enqueue("padding attention's heads", [&](cudaStream_t stream) {
    copy_heads(stream, queries_in(shape, args.q), queries_in(padded, of.q));
    copy_heads(stream, keys_in(shape, args.kv), keys_in(padded, of.kv));
    copy_heads(stream, values_in(shape, args.kv), values_in(padded, of.kv));
  });
  AttentionArgs filled = args;
  filled.q = of.q, filled.kv = of.kv, filled.out = of.out;
  run(padded, filled);
  ops_.enqueue("padding attention's heads",
               [&](cudaStream_t stream) { copy_heads(stream, outputs_in(padded, of.out), outputs_in(shape, args.out)); });
}

void AttentionOps::attention_backward(const SegmentShape& wanted, const AttentionBackwardArgs& args) {
  const SegmentShape shape = needed_pattern(wanted, args.documents.has_value());
  const std::int64_t size = padded_head_size(shape, args, gpu_);
  const bool is_rotated = size == 0 && run(shape, args);
  if (size > 0) run_padded(size, shape, args);
  if (!args.cos_sin || is_rotated) return;
  ops_.enqueue("rotary", [&](cudaStream_t stream) {
    cuda::rotary(stream, shape, {.qkv = args.dq, .cos_sin = *args.cos_sin, .documents = args.documents, .inverse = true});
  });
}

bool AttentionOps::run(const SegmentShape& shape, const AttentionBackwardArgs& args) {
  const AttentionKernel kernel = attention_backward_kernel(shape, args, gpu_);
  if (kernel == AttentionKernel::window_and_sinks) {
    run_window_and_sinks(shape, args);
    return false;
  }
  ops_.enqueue("attention_backward", [&](cudaStream_t stream) {
    switch (kernel) {
      case AttentionKernel::exact:
        return cuda::attention_backward(stream, shape, args, ops_.scratch(cuda::attention_backward_scratch(shape)));
      case AttentionKernel::mma:
        return cuda::attention_mma_backward(stream, shape, args, ops_.scratch(cuda::attention_mma_backward_scratch(shape)));
      case AttentionKernel::cudnn:
        return cudnn_.backward(stream, shape, args, [&](std::size_t bytes) { return ops_.scratch(bytes); });
      case AttentionKernel::hopper:
        return hopper_attention_backward(stream, shape, args, gpu_,
                                         ops_.scratch(hopper_attention_backward_scratch(shape, args, gpu_)));
      case AttentionKernel::window_and_sinks:
        return;
    }
  });
  return kernel == AttentionKernel::hopper && rotates_in_hopper(shape, args);
}

void AttentionOps::run_window_and_sinks(const SegmentShape& shape, const AttentionBackwardArgs& args) {
  AttentionBackwardArgs of_window = args;
  of_window.cos_sin.reset();  // gradients are rotated back once they are complete
  run(window_part(shape), of_window);
  ops_.enqueue("attention's sinks", [&](cudaStream_t stream) {
    const SegmentShape sinks = sinks_part(shape);
    add_attention_mma_backward(stream, sinks, args, ops_.scratch(add_attention_mma_backward_scratch(sinks)));
  });
}

void AttentionOps::run_padded(std::int64_t size, const SegmentShape& shape, const AttentionBackwardArgs& args) {
  Arena measuring = Arena::measuring();
  padded_matrices(shape, size, args, measuring);
  Arena memory(padded_.scratch(measuring.used()), measuring.used(), "attention with padded heads");
  const PaddedMatrices of = padded_matrices(shape, size, args, memory);
  const SegmentShape padded = with_padded_heads(shape, size);
  ops_.enqueue("padding attention's heads", [&](cudaStream_t stream) {
    copy_heads(stream, queries_in(shape, args.q), queries_in(padded, of.q));
    copy_heads(stream, keys_in(shape, args.kv), keys_in(padded, of.kv));
    copy_heads(stream, values_in(shape, args.kv), values_in(padded, of.kv));
    copy_heads(stream, outputs_in(shape, args.out), outputs_in(padded, of.out));
    copy_heads(stream, outputs_in(shape, args.dout), outputs_in(padded, of.dout));
    for (const auto& [sums, adds] : {std::pair(of.dq, args.accumulate_dq), std::pair(of.dkv, args.accumulate_dkv)})
      if (adds == Accumulate::yes) cudaMemsetAsync(sums.data, 0, sums.bytes(), stream);
  });
  AttentionBackwardArgs filled = args;
  filled.q = of.q, filled.kv = of.kv, filled.out = of.out, filled.dout = of.dout, filled.dq = of.dq, filled.dkv = of.dkv;
  filled.cos_sin.reset();
  run(padded, filled);
  ops_.enqueue("padding attention's heads", [&](cudaStream_t stream) {
    copy_heads(stream, queries_in(padded, of.dq), queries_in(shape, args.dq), args.accumulate_dq);
    copy_heads(stream, keys_in(padded, of.dkv), keys_in(shape, args.dkv), args.accumulate_dkv);
    copy_heads(stream, values_in(padded, of.dkv), values_in(shape, args.dkv), args.accumulate_dkv);
  });
}

void AttentionOps::cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) {
  ops_.enqueue("cached_attention", [&](cudaStream_t stream) { cuda::cached_attention(stream, shape, args); });
}

void AttentionOps::cached_latent_attention(const SegmentShape& shape, const CachedLatentAttentionArgs& args) {
  ops_.enqueue("cached_latent_attention", [&](cudaStream_t stream) { cuda::cached_latent_attention(stream, shape, args); });
}

void AttentionOps::merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) {
  ops_.enqueue("merge_attention", [&](cudaStream_t stream) { cuda::merge_attention(stream, shape, args); });
}

}  // namespace pipetrain::cuda
