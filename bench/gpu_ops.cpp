// Measures the rates of each GPU operation at Llama shapes, and of GPT-2's at those of its largest model and of a wider
// one, and compares them with those of the chip's memory and matrix units in the same run.
//
// bench_gpu_ops [tokens [NAME]]     only operations with NAME in their names; 4096 tokens
//
// Bytes are the fewest that the operation must move: each input read once, each output written once. Rates come from
// the time of many calls in a row on data that does not stay in the cache, so they include the gaps between launches.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "bench/gpu_ops/op_rates.hpp"
#include "bench/gpu_ops/op_rows.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

void measure_all(bench::OpRates& rates, std::int64_t tokens) {
  rates.measure_copies();
  bench::measure_norms(rates, tokens, 4096, 32000);
  bench::measure_norms(rates, 4 * tokens, 2048, 128256);  // Llama-3.2-1B, 4 sequences
  for (const std::int64_t inner : {11008, 14336}) bench::measure_swiglu(rates, tokens, inner);
  for (const int sequences : {1, 2, 4})
    bench::measure_gpt2(rates, sequences * tokens, 1600);  // GPT-2 XL, 4 sequences of 1024, 8 and 16
  bench::measure_gpt2(rates, 4 * tokens, 768);
  bench::measure_gpt2(rates, tokens, 4096);
  bench::measure_rotary(rates, whole_sequences(1, tokens, {32, 32, 128}));
  bench::measure_rotary(rates, whole_sequences(1, tokens, {32, 8, 128}));
  bench::measure_rotary(rates, whole_sequences(4, tokens, {32, 8, 64}));
  bench::measure_head_norms(rates, whole_sequences(1, tokens, {32, 8, 128}));  // Qwen3-8B
  bench::measure_head_norms(rates, whole_sequences(1, tokens, {8, 4, 256}));   // Gemma 3 4B
  for (const std::int64_t vocabulary : {32000, 50264, 128256}) bench::measure_head(rates, tokens, vocabulary);
  bench::measure_arenas(rates);
  bench::measure_matrices(rates, tokens);
  bench::measure_fp8(rates, tokens);
  for (const SegmentShape& shape :
       {whole_sequences(1, tokens, {32, 32, 128}), whole_sequences(1, tokens, {32, 8, 128}),
        whole_sequences(1, tokens, {8, 8, 128}), whole_sequences(1, 2 * tokens, {32, 8, 128}),
        whole_sequences(4, tokens, {32, 8, 64}), whole_sequences(1, 2 * tokens, {32, 8, 64}),
        whole_sequences(std::max<std::int64_t>(4 * tokens / 1024, 1), 1024, {12, 12, 64}),   // GPT-2 124M
        whole_sequences(std::max<std::int64_t>(2 * tokens / 1024, 1), 1024, {25, 25, 64})})  // GPT-2 XL
    bench::measure_attention(rates, shape);
  bench::measure_attention(rates, whole_sequences(1, tokens, {32, 32, 96}));  // Phi-3-mini
  SegmentShape latent = whole_sequences(1, tokens, {16, 16, 192});            // DeepSeek-V2-Lite
  latent.own_value_dim = 128;
  bench::measure_attention(rates, latent);
  for (const std::int64_t window : {0, 1024}) {  // Gemma 3 4B
    SegmentShape shape = whole_sequences(1, tokens, {8, 4, 256});
    shape.window = window;
    bench::measure_attention(rates, shape);
  }
  for (const std::int64_t head_dim : {64, 128})  // of a ring: half of a rank's tokens, and all of another's
    bench::measure_segment_attention(
        rates, 4 * tokens,
        {.queries = 2 * tokens, .first_query = 4 * tokens, .heads = 32, .kv_heads = 8, .head_dim = head_dim});
  for (const std::int64_t slices : {2, 4, 16}) {  // the last slice of this many
    bench::measure_segment_attention(rates, slices * 2 * tokens,
                                     {.queries = 2 * tokens, .heads = 32, .kv_heads = 8, .head_dim = 64});
    bench::measure_segment_attention(rates, slices * 2 * tokens,
                                     {.queries = 2 * tokens, .heads = 32, .kv_heads = 8, .head_dim = 128});
  }
  fmt::print(stderr, "{}", rates.table());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench::OpRates rates(argc > 2 ? argv[2] : "");
    measure_all(rates, argc > 1 ? std::atoll(argv[1]) : 4096);
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_ops: error: {}\n", error.what());
    return exit_status(error.kind());
  }
  return 0;
}
