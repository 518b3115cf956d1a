// Each function measures some operations at given shapes and reports a row for each of them.
#pragma once

#include <cstdint>

#include "bench/gpu_ops/op_rates.hpp"
#include "ops/segment_shape.hpp"

namespace pipetrain::bench {

void measure_norms(OpRates& rates, std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary);
void measure_swiglu(OpRates& rates, std::int64_t tokens, std::int64_t inner);
void measure_gpt2(OpRates& rates, std::int64_t tokens, std::int64_t hidden);
void measure_rotary(OpRates& rates, const SegmentShape& shape);
void measure_head_norms(OpRates& rates, const SegmentShape& shape);
void measure_head(OpRates& rates, std::int64_t tokens, std::int64_t vocabulary);
void measure_arenas(OpRates& rates);
void measure_matrices(OpRates& rates, std::int64_t tokens);
// Reports nothing on a GPU without 8-bit products.
void measure_fp8(OpRates& rates, std::int64_t tokens);
void measure_attention(OpRates& rates, const SegmentShape& shape);
// The queries follow this many keys; else they are the last of a sequence of `keys` tokens.
void measure_segment_attention(OpRates& rates, std::int64_t keys, SegmentShape shape);

}  // namespace pipetrain::bench
