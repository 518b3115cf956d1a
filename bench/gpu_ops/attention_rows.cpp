// Causal attention, whole and in segments.
#include <fmt/format.h>

#include <string>

#include "bench/gpu/cudnn_backward.hpp"
#include "bench/gpu_ops/op_rates.hpp"
#include "bench/gpu_ops/op_rows.hpp"

namespace pipetrain::bench {

void measure_attention(OpRates& rates, const SegmentShape& shape) {
  const Tensor qkv = rates.make({shape.tokens(), shape.packed_cols()}, DType::bf16), dqkv = rates.make(qkv.shape, DType::bf16);
  const Tensor out = rates.make({shape.tokens(), shape.output_cols()}, DType::bf16), dout = rates.make(out.shape, DType::bf16);
  const Tensor lse = rates.make({shape.batch, shape.heads, shape.queries}, DType::f32);
  // Causal attention counts half, less what the window hides.
  const double queries = static_cast<double>(shape.queries),
               beyond = shape.window > 0 ? queries - static_cast<double>(shape.window) : 0;
  const double of_column = static_cast<double>(shape.batch * shape.heads) * (queries * queries - beyond * beyond);
  const auto key_cols = static_cast<double>(shape.head_dim), value_cols = static_cast<double>(shape.value_dim());
  const double flops = of_column * (key_cols + value_cols), backward_flops = of_column * (3 * key_cols + 2 * value_cols);
  const bool has_equal_heads = shape.value_dim() == shape.head_dim;
  const std::string size =
      fmt::format(" {} x {} tokens, {} heads on {} of {}{}{}", shape.batch, shape.queries, shape.heads, shape.kv_heads,
                  shape.head_dim, has_equal_heads ? "" : fmt::format(" and {}", shape.value_dim()),
                  shape.window > 0 ? fmt::format(" in a window of {}", shape.window) : "");
  const AttentionBackwardArgs backward{
      .dout = dout, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse, .dq = dqkv, .dkv = dqkv};
  rates.report_flops("attention" + size, flops,
                     [&] { rates.ops().attention(shape, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse}); });
  rates.report_flops("attention_backward" + size, backward_flops, [&] { rates.ops().attention_backward(shape, backward); });
  if (!has_equal_heads) return rates.bench().free_all();  // the model rotates a part of each head, and cuDNN is not asked
  AttentionBackwardArgs turned = backward;
  turned.cos_sin = rates.make({shape.queries, 2, shape.head_dim / 2}, DType::f32);
  rates.report_flops("attention_backward + rotary" + size, backward_flops,
                     [&] { rates.ops().attention_backward(shape, turned); });
  rates.report_flops("attention_backward, then rotary" + size, backward_flops, [&] {
    rates.ops().attention_backward(shape, backward);
    rates.ops().rotary(shape, {.qkv = dqkv, .cos_sin = *turned.cos_sin, .inverse = true});
  });
  for (const bool deterministic : {false, true}) {
    bench::CudnnBackward cudnn(rates.bench().stream(), deterministic);
    rates.report_flops(std::string("attention_backward of cuDNN") + (deterministic ? ", deterministic" : "") + size,
                       backward_flops, [&] { cudnn.run(shape, backward); });
  }
  rates.bench().free_all();
}

// The queries follow this many keys; else they are the last of a sequence of `keys` tokens.
void measure_segment_attention(OpRates& rates, std::int64_t keys, SegmentShape shape) {
  shape.keys = keys;
  const bool behind = shape.first_query >= keys;
  if (!behind) shape.first_query = keys - shape.queries;
  const std::int64_t query_cols = shape.heads * shape.head_dim, key_cols = 2 * shape.kv_heads * shape.head_dim;
  const Tensor qkv = rates.make({shape.queries, query_cols + key_cols}, DType::bf16), dqkv = rates.make(qkv.shape, DType::bf16);
  const Tensor kv = rates.make({keys, key_cols}, DType::bf16), dkv = rates.make(kv.shape, DType::f32);
  const Tensor out = rates.make({shape.queries, query_cols}, DType::bf16), dout = rates.make(out.shape, DType::bf16);
  const Tensor lse = rates.make({1, shape.heads, shape.queries}, DType::f32);
  const double seen = static_cast<double>(shape.queries) *
                      (static_cast<double>(keys) - (behind ? 0 : 0.5) * static_cast<double>(shape.queries));
  const double flops = 4.0 * static_cast<double>(query_cols) * seen;
  const std::string size = fmt::format(" {} tokens on {}{}, {} heads on {} of {}", shape.queries, keys,
                                       behind ? " before them" : "", shape.heads, shape.kv_heads, shape.head_dim);
  rates.report_flops("segment_attention" + size, flops,
                     [&] { rates.ops().attention(shape, {.q = qkv, .kv = kv, .out = out, .log_sum_exp = lse}); });
  const AttentionBackwardArgs backward{.dout = dout,
                                       .q = qkv,
                                       .kv = kv,
                                       .out = out,
                                       .log_sum_exp = lse,
                                       .dq = dqkv,
                                       .dkv = dkv,
                                       .accumulate_dkv = Accumulate::yes};
  rates.report_flops("segment_attention_backward" + size, 2.5 * flops,
                     [&] { rates.ops().attention_backward(shape, backward); });
  rates.bench().free_all();
}

}  // namespace pipetrain::bench
