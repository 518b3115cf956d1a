// Norms, activations, rotation, the head and flat arenas, whose time is that of the bytes they move.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/gpu_ops/op_rates.hpp"
#include "bench/gpu_ops/op_rows.hpp"

namespace pipetrain::bench {

void measure_norms(OpRates& rates, std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary) {
  const Shape shape{tokens, hidden};
  const double row = static_cast<double>(tokens * hidden) * 2;  // one activation
  const std::string size = fmt::format(" {} x {} bf16", tokens, hidden);
  const auto make_set = [&] {
    return std::vector<Tensor>{rates.make(shape, DType::bf16),    rates.make(shape, DType::bf16),
                               rates.make(shape, DType::bf16),    rates.make(shape, DType::bf16),
                               rates.make({hidden}, DType::bf16), rates.make({tokens}, DType::f32),
                               rates.make({hidden}, DType::f32)};
  };
  rates.with_sets("rms_norm" + size, 2 * row, make_set, [&](auto& t) {
    rates.ops().rms_norm({.x = t[0], .weight = t[4], .eps = 1e-5F, .y = t[1], .inv_rms = t[5]});
  });
  rates.with_sets("rms_norm_backward + residual" + size, 4 * row, make_set, [&](auto& t) {
    rates.ops().rms_norm_backward(
        {.dy = t[0], .x = t[1], .weight = t[4], .inv_rms = t[5], .residual = t[2], .dx = t[3], .dweight = t[6]});
  });
  // The rows of the table that this many random ids name are each moved once.
  const double fraction = static_cast<double>(tokens) / static_cast<double>(vocabulary);
  const double named = row * (1 - std::exp(-fraction)) / fraction;
  const auto make_embedding = [&] {
    return std::vector<Tensor>{rates.bench().make_ids(tokens, vocabulary), rates.make({vocabulary, hidden}, DType::bf16),
                               rates.make(shape, DType::bf16), rates.make({vocabulary, hidden}, DType::f32)};
  };
  rates.with_sets("embedding" + size, named + row, make_embedding,
                  [&](auto& t) { rates.ops().embedding({.ids = t[0], .table = t[1], .first_id = 0, .out = t[2]}); });
  rates.with_sets("embedding_grad" + size, 4 * named + row, make_embedding,
                  [&](auto& t) { rates.ops().embedding_grad({.ids = t[0], .dy = t[2], .first_id = 0, .dtable = t[3]}); });
}

void measure_swiglu(OpRates& rates, std::int64_t tokens, std::int64_t inner) {
  const double part = static_cast<double>(tokens * inner) * 2;
  const std::string size = fmt::format(" {} x {} bf16", tokens, inner);
  const auto make_set = [&] {
    return std::vector<Tensor>{rates.make({tokens, 2 * inner}, DType::bf16), rates.make({tokens, inner}, DType::bf16),
                               rates.make({tokens, 2 * inner}, DType::bf16)};
  };
  rates.with_sets("swiglu" + size, 3 * part, make_set, [&](auto& t) { rates.ops().swiglu({.gate_up = t[0], .y = t[1]}); });
  rates.with_sets("swiglu_backward" + size, 5 * part, make_set,
                  [&](auto& t) { rates.ops().swiglu_backward({.dy = t[1], .gate_up = t[0], .dgate_up = t[2]}); });
}

void measure_rotary(OpRates& rates, const SegmentShape& shape) {
  const double bytes = static_cast<double>(shape.tokens() * (shape.heads + shape.kv_heads) * shape.head_dim) * 4 +
                       static_cast<double>(shape.queries * shape.head_dim) * 4;  // the angles
  const auto make_set = [&] {
    return std::vector<Tensor>{rates.make({shape.tokens(), shape.packed_cols()}, DType::bf16),
                               rates.make({shape.queries, 2, shape.head_dim / 2}, DType::f32)};
  };
  rates.with_sets(fmt::format("rotary {} heads on {} of {} bf16", shape.heads, shape.kv_heads, shape.head_dim), bytes, make_set,
                  [&](auto& t) { rates.ops().rotary(shape, {.qkv = t[0], .cos_sin = t[1]}); });
}

void measure_head_norms(OpRates& rates, const SegmentShape& shape) {
  const std::int64_t cols = shape.query_cols() + shape.kv_heads * shape.head_dim;
  const double heads = static_cast<double>(shape.tokens() * cols) * 2;  // those that are normed
  const auto make_norm = [&](std::int64_t count) {
    return HeadNorm{rates.make({shape.head_dim}, DType::bf16),
                    rates.make({shape.tokens(), count * shape.head_dim}, DType::bf16),
                    rates.make({shape.tokens() * count}, DType::f32)};
  };
  struct Set {
    HeadNorm queries, keys;
    Tensor qkv, cos_sin, sums[2];
  };
  const auto make_set = [&] {
    const Tensor qkv = rates.make({shape.tokens(), shape.packed_cols()}, DType::bf16);
    const Tensor cos_sin = rates.make({shape.queries, 2, shape.head_dim / 2}, DType::f32);
    return Set{make_norm(shape.heads),
               make_norm(shape.kv_heads),
               qkv,
               cos_sin,
               {rates.make({shape.head_dim}, DType::f32), rates.make({shape.head_dim}, DType::f32)}};
  };
  const std::string size = fmt::format(" {} heads on {} of {} bf16", shape.heads, shape.kv_heads, shape.head_dim);
  rates.with_sets("head_norms + rotary" + size, 3 * heads, make_set, [&](auto& t) {
    rates.ops().head_norms(shape, {.qkv = t.qkv, .queries = t.queries, .keys = t.keys, .eps = 1e-6F, .cos_sin = t.cos_sin});
  });
  rates.with_sets("head_norms_backward" + size, 3 * heads, make_set, [&](auto& t) {
    rates.ops().head_norms_backward(
        shape, {.dqkv = t.qkv, .queries = t.queries, .keys = t.keys, .dquery_weight = t.sums[0], .dkey_weight = t.sums[1]});
  });
}

void measure_head(OpRates& rates, std::int64_t tokens, std::int64_t vocabulary) {
  const double logits = static_cast<double>(tokens * vocabulary) * 2;
  const std::string size = fmt::format(" {} x {} bf16", tokens, vocabulary);
  const auto make_set = [&] {
    return std::vector<Tensor>{rates.make({tokens, vocabulary}, DType::bf16), rates.bench().make_ids(tokens, vocabulary),
                               rates.make({tokens}, DType::f32), rates.make({1}, DType::f64)};
  };
  rates.with_sets("cross_entropy" + size, logits, make_set, [&](auto& t) {
    rates.ops().cross_entropy(
        {.logits = t[0], .targets = t[1], .vocabulary = {0, vocabulary}, .log_sum_exp = t[2], .loss_sum = t[3]});
  });
  rates.with_sets("cross_entropy_backward" + size, 2 * logits, make_set, [&](auto& t) {
    rates.ops().cross_entropy_backward(
        {.logits = t[0], .targets = t[1], .vocabulary = {0, vocabulary}, .log_sum_exp = t[2], .scale = 1e-3F});
  });
  rates.with_sets("cross_entropy_with_gradient" + size, 2 * logits, make_set, [&](auto& t) {
    rates.ops().cross_entropy({.logits = t[0],
                               .targets = t[1],
                               .vocabulary = {0, vocabulary},
                               .log_sum_exp = t[2],
                               .loss_sum = t[3],
                               .gradient_scale = 1e-3F});
  });
}

void measure_arenas(OpRates& rates) {
  const std::int64_t count = std::int64_t{1} << 26;
  const double bytes = static_cast<double>(count) * 4;
  const auto make_set = [&] {
    return std::vector<Tensor>{rates.make({count}, DType::f32), rates.make({count}, DType::f32),
                               rates.make({count}, DType::f32), rates.make({count}, DType::f32), rates.make({1}, DType::f64)};
  };
  const AdamW settings{.lr = 1e-4F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F};
  rates.with_sets("adamw 64 Mi elements", 7 * bytes, make_set, [&](auto& t) {
    rates.ops().update({.weight = t[0], .grad = t[1], .states = {t[2], t[3]}, .rule = settings});
  });
  const auto make_rounded = [&] {
    auto set = make_set();
    set.push_back(rates.make({count}, DType::bf16));
    return set;
  };
  rates.with_sets("adamw_rounded 64 Mi elements", 7.5 * bytes, make_rounded, [&](auto& t) {
    rates.ops().update({.weight = t[0], .grad = t[1], .states = {t[2], t[3]}, .rounded = t[5], .rule = settings});
  });
  // A block of moments in 8 bits has 256 elements and a magnitude.
  const auto make_eight_bits = [&] {
    std::vector<Tensor> set{rates.make({count}, DType::f32), rates.make({count}, DType::f32), rates.make({count}, DType::bf16)};
    for (int moment = 0; moment < 2; ++moment)
      set.push_back(rates.make({count / 4}, DType::f32)), set.push_back(rates.make({count / 256}, DType::f32));
    return set;
  };
  rates.with_sets("adamw_8bit_rounded 64 Mi elements", 4.5 * bytes, make_eight_bits, [&](auto& t) {
    const auto moment = [&](std::size_t i) {
      return EightBitState{t[i].template as<std::uint8_t>(), t[i + 1].template as<float>()};
    };
    rates.ops().eight_bit_update(
        {.weight = t[0], .grad = t[1], .states = {moment(3), moment(5)}, .rounded = t[2], .rule = settings});
  });
  rates.with_sets("square_sum 64 Mi elements", bytes, make_set, [&](auto& t) { rates.ops().square_sum(t[0], t[4]); });
  rates.with_sets("add 64 Mi elements", 3 * bytes, make_set, [&](auto& t) { rates.ops().add(t[0], t[1]); });
}

}  // namespace pipetrain::bench
