// Measures the rates of each GPU operation at Llama shapes, and of GPT-2's at those of its largest model and of a wider
// one, and compares them with those of the chip's memory and matrix units in the same run.
//
// bench_gpu_ops [tokens [NAME]]     only operations with NAME in their names; 4096 tokens
//
// Bytes are the fewest that the operation must move: each input read once, each output written once. Rates come from
// the time of many calls in a row on data that does not stay in the cache, so they include the gaps between launches.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/cudnn_backward.hpp"
#include "bench/gpu/op_bench.hpp"
#include "bench/result.hpp"
#include "core/device_name.hpp"
#include "core/error.hpp"
#include "model/blocks/fp8_memory.hpp"
#include "ops/ops.hpp"

using namespace pipetrain;

namespace {

using bench::Limit;

class GpuBench {
 public:
  GpuBench(std::int64_t tokens, std::string only) : tokens_(tokens), only_(std::move(only)), bench_(bench::gpu_op_bench()) {}

  void run() {
    copies();
    norms(tokens_, 4096, 32000);
    norms(4 * tokens_, 2048, 128256);  // Llama-3.2-1B, 4 sequences
    for (const std::int64_t inner : {11008, 14336}) swiglu(inner);
    for (const int sequences : {1, 2, 4}) gpt2(sequences * tokens_, 1600);  // GPT-2 XL, 4 sequences of 1024, 8 and 16
    gpt2(4 * tokens_, 768);
    gpt2(tokens_, 4096);
    rotary(whole_sequences(1, tokens_, {32, 32, 128}));
    rotary(whole_sequences(1, tokens_, {32, 8, 128}));
    rotary(whole_sequences(4, tokens_, {32, 8, 64}));
    head_norms(whole_sequences(1, tokens_, {32, 8, 128}));  // Qwen3-8B
    head_norms(whole_sequences(1, tokens_, {8, 4, 256}));   // Gemma 3 4B
    for (const std::int64_t vocabulary : {32000, 50264, 128256}) head(vocabulary);
    arenas();
    matrices();
    fp8();
    for (const SegmentShape& shape :
         {whole_sequences(1, tokens_, {32, 32, 128}), whole_sequences(1, tokens_, {32, 8, 128}),
          whole_sequences(1, tokens_, {8, 8, 128}), whole_sequences(1, 2 * tokens_, {32, 8, 128}),
          whole_sequences(4, tokens_, {32, 8, 64}), whole_sequences(1, 2 * tokens_, {32, 8, 64}),
          whole_sequences(std::max<std::int64_t>(4 * tokens_ / 1024, 1), 1024, {12, 12, 64}),   // GPT-2 124M
          whole_sequences(std::max<std::int64_t>(2 * tokens_ / 1024, 1), 1024, {25, 25, 64})})  // GPT-2 XL
      attention(shape);
    attention(whole_sequences(1, tokens_, {32, 32, 96}));  // Phi-3-mini
    for (const std::int64_t window : {0, 1024}) {          // Gemma 3 4B
      SegmentShape shape = whole_sequences(1, tokens_, {8, 4, 256});
      shape.window = window;
      attention(shape);
    }
    for (const std::int64_t head_dim : {64, 128})  // of a ring: half of a rank's tokens, and all of another's
      segment_attention(4 * tokens_,
                        {.queries = 2 * tokens_, .first_query = 4 * tokens_, .heads = 32, .kv_heads = 8, .head_dim = head_dim});
    for (const std::int64_t slices : {2, 4, 16}) {  // the last slice of this many
      segment_attention(slices * 2 * tokens_, {.queries = 2 * tokens_, .heads = 32, .kv_heads = 8, .head_dim = 64});
      segment_attention(slices * 2 * tokens_, {.queries = 2 * tokens_, .heads = 32, .kv_heads = 8, .head_dim = 128});
    }
    fmt::print(stderr, "{}", table_);
  }

 private:
  static constexpr std::size_t cache_bytes = std::size_t{60} << 20;

  std::int64_t tokens_;
  std::string only_;
  bench::OpBench bench_;
  Ops* ops_ = &bench_.ops();
  double copy_rate_ = 0;
  std::string table_;

  Tensor make(const Shape& shape, DType dtype) { return bench_.make(shape, dtype); }
  bool left_out(const std::string& name) const { return name.find(only_) == std::string::npos; }

  // Returns how many copies of one operation's data make the cache useless.
  static int sets_for(double bytes) {
    return static_cast<int>(std::clamp(6.0 * static_cast<double>(cache_bytes) / bytes, 1.0, 32.0));
  }

  void report_bytes(const std::string& name, double bytes, int sets, const std::function<void(int)>& call) {
    const double time = bench_.seconds(calls_for(bytes / 4e12), [&](int i) { call(i % sets); });
    const double rate = bytes / time * 1e-9;
    bench_.free_all();
    const double equal = copy_rate_of(static_cast<std::size_t>(bytes / 512) * 256);
    bench::report("gpu " + name, rate, "GB/s", Limit::at_least, 0.85 * copy_rate_);
    bench::report("gpu " + name + " over a copy of as many bytes", rate / equal, "ratio");
    table_ += fmt::format("{:<48} {:7.1f} us {:6.0f} GB/s {:6.1f} % of best copy, {:5.1f} % of an equal one\n", name,
                          time * 1e6, rate, 100 * rate / copy_rate_, 100 * rate / equal);
  }

  void report_flops(const std::string& name, double flops, const std::function<void()>& call) {
    if (left_out(name)) return;
    const double time = bench_.seconds(calls_for(flops / 6e14), [&](int) { call(); });
    const double host = host_seconds(call);
    bench::report("gpu " + name, flops / time * 1e-12, "TFLOP/s");
    table_ +=
        fmt::format("{:<58} {:8.1f} us {:6.0f} TFLOP/s, host {:4.1f} us\n", name, time * 1e6, flops / time * 1e-12, host * 1e6);
  }

  // Returns the host's seconds to enqueue a call, measured with few calls at once, so that no queue is full.
  double host_seconds(const std::function<void()>& call) {
    bench_.stream().synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) call();
    const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 20;
    bench_.stream().synchronize();
    return time;
  }

  static int calls_for(double guess) { return static_cast<int>(std::clamp(10e-3 / guess, 5.0, 400.0)); }

  // Returns the GB/s of copying this many bytes, with read and written bytes both counted.
  double copy_rate_of(std::size_t bytes) {
    const double moved = 2 * static_cast<double>(bytes);
    const int sets = sets_for(moved);
    std::vector<std::pair<Tensor, Tensor>> pairs;
    for (int i = 0; i < sets; ++i) {
      const Shape shape{static_cast<std::int64_t>(bytes / 4)};
      pairs.emplace_back(make(shape, DType::f32), make(shape, DType::f32));
    }
    const double time = bench_.seconds(calls_for(moved / 4e12), [&](int i) {
      const auto& [from, to] = pairs[static_cast<std::size_t>(i % sets)];
      bench_.stream().copy(to.data, from.data, bytes);
    });
    bench_.free_all();
    return moved / time * 1e-9;
  }

  void copies() {
    for (const std::size_t mebibytes : {1024, 64, 32}) {  // 32 MiB: an activation of [4096, 4096]
      const double rate = copy_rate_of(mebibytes << 20);
      copy_rate_ = std::max(copy_rate_, rate);
      bench::report(fmt::format("gpu copy of {} MiB", mebibytes), rate, "GB/s");
      table_ += fmt::format("{:<48} {:17.0f} GB/s\n", fmt::format("copy of {} MiB", mebibytes), rate);
    }
  }

  // Makes tensors for each set; call(set index) uses them.
  template <class Make, class Call>
  void with_sets(const std::string& name, double bytes, Make make_set, Call call) {
    if (left_out(name)) return;
    const int sets = sets_for(bytes);
    std::vector<decltype(make_set())> all;
    for (int i = 0; i < sets; ++i) all.push_back(make_set());
    report_bytes(name, bytes, sets, [&](int i) { call(all[static_cast<std::size_t>(i)]); });
  }

  void norms(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary) {
    const Shape shape{tokens, hidden};
    const double row = static_cast<double>(tokens * hidden) * 2;  // one activation
    const std::string size = fmt::format(" {} x {} bf16", tokens, hidden);
    const auto make_set = [&] {
      return std::vector<Tensor>{make(shape, DType::bf16),  make(shape, DType::bf16),    make(shape, DType::bf16),
                                 make(shape, DType::bf16),  make({hidden}, DType::bf16), make({tokens}, DType::f32),
                                 make({hidden}, DType::f32)};
    };
    with_sets("rms_norm" + size, 2 * row, make_set,
              [&](auto& t) { ops_->rms_norm({.x = t[0], .weight = t[4], .eps = 1e-5F, .y = t[1], .inv_rms = t[5]}); });
    with_sets("rms_norm_backward + residual" + size, 4 * row, make_set, [&](auto& t) {
      ops_->rms_norm_backward(
          {.dy = t[0], .x = t[1], .weight = t[4], .inv_rms = t[5], .residual = t[2], .dx = t[3], .dweight = t[6]});
    });
    // The rows of the table that this many random ids name are each moved once.
    const double fraction = static_cast<double>(tokens) / static_cast<double>(vocabulary);
    const double named = row * (1 - std::exp(-fraction)) / fraction;
    const auto make_embedding = [&] {
      return std::vector<Tensor>{bench_.make_ids(tokens, vocabulary), make({vocabulary, hidden}, DType::bf16),
                                 make(shape, DType::bf16), make({vocabulary, hidden}, DType::f32)};
    };
    with_sets("embedding" + size, named + row, make_embedding,
              [&](auto& t) { ops_->embedding({.ids = t[0], .table = t[1], .first_id = 0, .out = t[2]}); });
    with_sets("embedding_grad" + size, 4 * named + row, make_embedding,
              [&](auto& t) { ops_->embedding_grad({.ids = t[0], .dy = t[2], .first_id = 0, .dtable = t[3]}); });
  }

  void swiglu(std::int64_t inner) {
    const double part = static_cast<double>(tokens_ * inner) * 2;
    const std::string size = fmt::format(" {} x {} bf16", tokens_, inner);
    const auto make_set = [&] {
      return std::vector<Tensor>{make({tokens_, 2 * inner}, DType::bf16), make({tokens_, inner}, DType::bf16),
                                 make({tokens_, 2 * inner}, DType::bf16)};
    };
    with_sets("swiglu" + size, 3 * part, make_set, [&](auto& t) { ops_->swiglu({.gate_up = t[0], .y = t[1]}); });
    with_sets("swiglu_backward" + size, 5 * part, make_set,
              [&](auto& t) { ops_->swiglu_backward({.dy = t[1], .gate_up = t[0], .dgate_up = t[2]}); });
  }

  void gpt2(std::int64_t tokens, std::int64_t hidden) {
    const std::int64_t inner = 4 * hidden, sequence = 1024;
    const double row = static_cast<double>(tokens * hidden) * 2, wide = 4 * row;
    const std::string size = fmt::format(" {} x {} bf16", tokens, hidden),
                      wide_size = fmt::format(" {} x {} bf16", tokens, inner);
    const auto make_norm = [&] {
      std::vector<Tensor> set;
      for (int i = 0; i < 4; ++i) set.push_back(make({tokens, hidden}, DType::bf16));
      for (int i = 0; i < 2; ++i) set.push_back(make({hidden}, DType::bf16));
      for (const std::int64_t elements : {tokens, tokens, hidden, hidden, hidden}) set.push_back(make({elements}, DType::f32));
      return set;
    };
    with_sets("layer_norm" + size, 2 * row, make_norm, [&](auto& t) {
      ops_->layer_norm({.x = t[0], .weight = t[4], .bias = t[5], .eps = 1e-5F, .y = t[1], .mean = t[6], .inv_std = t[7]});
    });
    with_sets("layer_norm_backward + residual and its sums" + size, 4 * row, make_norm, [&](auto& t) {
      ops_->layer_norm_backward({.dy = t[0],
                                 .x = t[1],
                                 .weight = t[4],
                                 .mean = t[6],
                                 .inv_std = t[7],
                                 .residual = t[2],
                                 .dx = t[3],
                                 .dweight = t[8],
                                 .dbias = t[9],
                                 .residual_sums = t[10]});
    });
    const auto make_wide = [&] {
      return std::vector<Tensor>{make({tokens, inner}, DType::bf16), make({tokens, inner}, DType::bf16),
                                 make({tokens, inner}, DType::bf16), make({inner}, DType::bf16), make({inner}, DType::f32)};
    };
    with_sets("gelu + bias" + wide_size, 2 * wide, make_wide, [&](auto& t) { ops_->gelu(t[0], t[3], t[1]); });
    with_sets("gelu_backward + bias_grad" + wide_size, 3 * wide, make_wide,
              [&](auto& t) { ops_->gelu_backward({.dy = t[0], .x = t[1], .bias = t[3], .dx = t[2], .dbias = t[4]}); });
    with_sets("add_bias" + wide_size, 2 * wide, make_wide, [&](auto& t) { ops_->add_bias(t[0], t[3]); });
    with_sets("bias_grad" + wide_size, wide, make_wide, [&](auto& t) { ops_->bias_grad(t[0], t[4]); });
    const double table = static_cast<double>(sequence * hidden) * 2;
    const auto make_positions = [&] {
      return std::vector<Tensor>{make({tokens, hidden}, DType::bf16), make({sequence, hidden}, DType::bf16),
                                 make({sequence, hidden}, DType::f32)};
    };
    with_sets("add_positions" + size, 2 * row + table, make_positions,
              [&](auto& t) { ops_->add_positions({.sequence = sequence, .table = t[1], .x = t[0]}); });
    with_sets("positions_grad" + size, row + 4 * table, make_positions,
              [&](auto& t) { ops_->positions_grad({.sequence = sequence, .dy = t[0], .dtable = t[2]}); });
  }

  void rotary(const SegmentShape& shape) {
    const double bytes = static_cast<double>(shape.tokens() * (shape.heads + shape.kv_heads) * shape.head_dim) * 4 +
                         static_cast<double>(shape.queries * shape.head_dim) * 4;  // the angles
    const auto make_set = [&] {
      return std::vector<Tensor>{make({shape.tokens(), shape.packed_cols()}, DType::bf16),
                                 make({shape.queries, 2, shape.head_dim / 2}, DType::f32)};
    };
    with_sets(fmt::format("rotary {} heads on {} of {} bf16", shape.heads, shape.kv_heads, shape.head_dim), bytes, make_set,
              [&](auto& t) { ops_->rotary(shape, {.qkv = t[0], .cos_sin = t[1]}); });
  }

  void head_norms(const SegmentShape& shape) {
    const std::int64_t cols = shape.query_cols() + shape.kv_heads * shape.head_dim;
    const double heads = static_cast<double>(shape.tokens() * cols) * 2;  // those that are normed
    const auto make_norm = [&](std::int64_t count) {
      return HeadNorm{make({shape.head_dim}, DType::bf16), make({shape.tokens(), count * shape.head_dim}, DType::bf16),
                      make({shape.tokens() * count}, DType::f32)};
    };
    struct Set {
      HeadNorm queries, keys;
      Tensor qkv, cos_sin, sums[2];
    };
    const auto make_set = [&] {
      const Tensor qkv = make({shape.tokens(), shape.packed_cols()}, DType::bf16);
      const Tensor cos_sin = make({shape.queries, 2, shape.head_dim / 2}, DType::f32);
      return Set{make_norm(shape.heads),
                 make_norm(shape.kv_heads),
                 qkv,
                 cos_sin,
                 {make({shape.head_dim}, DType::f32), make({shape.head_dim}, DType::f32)}};
    };
    const std::string size = fmt::format(" {} heads on {} of {} bf16", shape.heads, shape.kv_heads, shape.head_dim);
    with_sets("head_norms + rotary" + size, 3 * heads, make_set, [&](auto& t) {
      ops_->head_norms(shape, {.qkv = t.qkv, .queries = t.queries, .keys = t.keys, .eps = 1e-6F, .cos_sin = t.cos_sin});
    });
    with_sets("head_norms_backward" + size, 3 * heads, make_set, [&](auto& t) {
      ops_->head_norms_backward(
          shape, {.dqkv = t.qkv, .queries = t.queries, .keys = t.keys, .dquery_weight = t.sums[0], .dkey_weight = t.sums[1]});
    });
  }

  void head(std::int64_t vocabulary) {
    const double logits = static_cast<double>(tokens_ * vocabulary) * 2;
    const std::string size = fmt::format(" {} x {} bf16", tokens_, vocabulary);
    const auto make_set = [&] {
      return std::vector<Tensor>{make({tokens_, vocabulary}, DType::bf16), bench_.make_ids(tokens_, vocabulary),
                                 make({tokens_}, DType::f32), make({1}, DType::f64)};
    };
    with_sets("cross_entropy" + size, logits, make_set, [&](auto& t) {
      ops_->cross_entropy(
          {.logits = t[0], .targets = t[1], .vocabulary = {0, vocabulary}, .log_sum_exp = t[2], .loss_sum = t[3]});
    });
    with_sets("cross_entropy_backward" + size, 2 * logits, make_set, [&](auto& t) {
      ops_->cross_entropy_backward(
          {.logits = t[0], .targets = t[1], .vocabulary = {0, vocabulary}, .log_sum_exp = t[2], .scale = 1e-3F});
    });
    with_sets("cross_entropy_with_gradient" + size, 2 * logits, make_set, [&](auto& t) {
      ops_->cross_entropy({.logits = t[0],
                           .targets = t[1],
                           .vocabulary = {0, vocabulary},
                           .log_sum_exp = t[2],
                           .loss_sum = t[3],
                           .gradient_scale = 1e-3F});
    });
  }

  void arenas() {
    const std::int64_t count = std::int64_t{1} << 26;
    const double bytes = static_cast<double>(count) * 4;
    const auto make_set = [&] {
      return std::vector<Tensor>{make({count}, DType::f32), make({count}, DType::f32), make({count}, DType::f32),
                                 make({count}, DType::f32), make({1}, DType::f64)};
    };
    const AdamW settings{.lr = 1e-4F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F};
    with_sets("adamw 64 Mi elements", 7 * bytes, make_set, [&](auto& t) {
      ops_->update({.weight = t[0], .grad = t[1], .states = {t[2], t[3]}, .rule = settings});
    });
    const auto make_rounded = [&] {
      auto set = make_set();
      set.push_back(make({count}, DType::bf16));
      return set;
    };
    with_sets("adamw_rounded 64 Mi elements", 7.5 * bytes, make_rounded, [&](auto& t) {
      ops_->update({.weight = t[0], .grad = t[1], .states = {t[2], t[3]}, .rounded = t[5], .rule = settings});
    });
    with_sets("square_sum 64 Mi elements", bytes, make_set, [&](auto& t) { ops_->square_sum(t[0], t[4]); });
    with_sets("add 64 Mi elements", 3 * bytes, make_set, [&](auto& t) { ops_->add(t[0], t[1]); });
  }

  // One read, two layouts written; unless the largest magnitude is measured already, another read before.
  void quantise(std::int64_t rows, std::int64_t cols) {
    const double bytes = static_cast<double>(rows * cols);
    const std::string size = fmt::format(" {} x {}", rows, cols);
    const auto make_set = [=, this] {
      return std::vector<Tensor>{make({rows, cols}, DType::bf16), make({rows, cols}, DType::e4m3),
                                 make({cols, rows}, DType::e4m3), make({2}, DType::f32)};
    };
    for (const bool measured : {true, false}) {
      with_sets((measured ? "quantise, measured," : "quantise") + size, (measured ? 4 : 6) * bytes, make_set, [&](auto& t) {
        ops_->quantise({.x = t[0], .out = {t[1], t[2], t[3]}, .measured = measured});
      });
    }
  }

  // With scales of tiles or blocks, which it finds in the same pass.
  void quantise_blocks(std::int64_t rows, std::int64_t cols) {
    const double bytes = static_cast<double>(rows * cols);
    for (const Fp8Scales scales : {Fp8Scales::tiles, Fp8Scales::blocks}) {
      const char* kind = scales == Fp8Scales::tiles ? "tiles" : "blocks";
      const auto make_set = [=, this] {
        const Fp8Matrix to = bench_.make_fp8({rows, cols}, DType::e4m3, scales);
        return std::vector<Tensor>{make({rows, cols}, DType::bf16), to.rows, to.cols, to.row_scales, to.col_scales};
      };
      with_sets(fmt::format("quantise, {}, {} x {}", kind, rows, cols), 4 * bytes, make_set, [&](auto& t) {
        ops_->quantise(
            {.x = t[0], .out = {.rows = t[1], .cols = t[2], .scales = scales, .row_scales = t[3], .col_scales = t[4]}});
      });
    }
  }

  // Measures the products of a block's matrix in fp8, with quantised random numbers.
  void fp8_matrix(const char* name, std::int64_t n, std::int64_t k, bool blocks) {
    const auto quantised = [&](const Shape& shape, DType type, Fp8Scales scales) {
      const Fp8Matrix matrix =
          blocks ? bench_.make_fp8(shape, DType::e4m3, scales) : bench_.make_fp8(shape, type, Fp8Scales::tensor);
      ops_->quantise({.x = make(shape, DType::bf16), .out = matrix});
      return matrix;
    };
    const Fp8Matrix x = quantised({tokens_, k}, DType::e4m3, Fp8Scales::tiles);
    const Fp8Matrix w = quantised({n, k}, DType::e4m3, Fp8Scales::blocks);
    const Fp8Matrix dy = quantised({tokens_, n}, DType::e5m2, Fp8Scales::tiles);
    const Tensor y = make({tokens_, n}, DType::bf16), dx = make({tokens_, k}, DType::bf16), dw = make({n, k}, DType::f32);
    const double flops = 2.0 * static_cast<double>(tokens_ * n * k);
    const std::string size = fmt::format(" in fp8{} {} ({} x {} x {})", blocks ? " blockwise" : "", name, tokens_, n, k);
    report_flops("forward" + size, flops, [&] { ops_->fp8_matmul({.a = rows_of(x), .b = rows_of(w), .out = y}); });
    report_flops("input_grad" + size, flops, [&] { ops_->fp8_matmul({.a = rows_of(dy), .b = cols_of(w), .out = dx}); });
    report_flops("weight_grad" + size, flops,
                 [&] { ops_->fp8_matmul({.a = cols_of(dy), .b = cols_of(x), .addend = dw, .out = dw}); });
    bench_.free_all();
  }

  void fp8() {
    if (!cuda_multiplies_fp8(0)) return;
    for (const std::int64_t cols : {4096, 6144, 14336, 28672}) {
      quantise(tokens_, cols);
      quantise_blocks(tokens_, cols);
    }
    struct Matrix {
      const char* name;
      std::int64_t n, k;
    };
    for (const auto& [name, n, k] :
         {Matrix{"qkv 8b", 6144, 4096}, Matrix{"o", 4096, 4096}, Matrix{"gate_up 8b", 28672, 4096},
          Matrix{"down 8b", 4096, 14336}, Matrix{"gate_up 7b", 22016, 4096}, Matrix{"down 7b", 4096, 11008}})
      for (const bool blocks : {false, true}) fp8_matrix(name, n, k, blocks);
  }

  void matrices() {
    struct Matrix {
      const char* name;
      std::int64_t n, k;
    };
    for (const auto& [name, n, k] :
         {Matrix{"o 7b", 4096, 4096}, Matrix{"qkv 7b", 12288, 4096}, Matrix{"qkv 8b", 6144, 4096},
          Matrix{"gate_up 7b", 22016, 4096}, Matrix{"down 7b", 4096, 11008}, Matrix{"gate_up 8b", 28672, 4096},
          Matrix{"down 8b", 4096, 14336}, Matrix{"head 8b", 128256, 4096}, Matrix{"qkv tp4", 3072, 4096},
          Matrix{"gate_up tp4", 5504, 4096}, Matrix{"down tp4", 4096, 2752}}) {
      const Tensor x = make({tokens_, k}, DType::bf16), w = make({n, k}, DType::bf16), y = make({tokens_, n}, DType::bf16);
      const Tensor dw = make({n, k}, DType::f32);
      const double flops = 2.0 * static_cast<double>(tokens_ * n * k);
      const std::string size = fmt::format(" {} ({} x {} x {})", name, tokens_, n, k);
      report_flops("forward" + size, flops,
                   [&] { ops_->matmul_scatter({.kind = MatmulKind::forward, .in = x, .w = w, .out = y}); });
      report_flops("forward + residual" + size, flops,
                   [&] { ops_->matmul_scatter({.kind = MatmulKind::forward, .in = x, .w = w, .residual = y, .out = y}); });
      bench_.fill(y);  // sums of sums would grow
      report_flops("input_grad" + size, flops,
                   [&] { ops_->matmul_scatter({.kind = MatmulKind::input_grad, .in = y, .w = w, .out = x}); });
      report_flops("weight_grad" + size, flops, [&] { ops_->weight_grad({.dy = y, .x = x, .dw = dw}); });
      bench_.free_all();
    }
  }

  void attention(const SegmentShape& shape) {
    const Tensor qkv = make({shape.tokens(), shape.packed_cols()}, DType::bf16), dqkv = make(qkv.shape, DType::bf16);
    const Tensor out = make({shape.tokens(), shape.heads * shape.head_dim}, DType::bf16), dout = make(out.shape, DType::bf16);
    const Tensor lse = make({shape.batch, shape.heads, shape.queries}, DType::f32);
    // Causal attention counts half, less what the window hides.
    const double queries = static_cast<double>(shape.queries),
                 beyond = shape.window > 0 ? queries - static_cast<double>(shape.window) : 0;
    const double flops =
        2.0 * static_cast<double>(shape.batch * shape.heads * shape.head_dim) * (queries * queries - beyond * beyond);
    const std::string size =
        fmt::format(" {} x {} tokens, {} heads on {} of {}{}", shape.batch, shape.queries, shape.heads, shape.kv_heads,
                    shape.head_dim, shape.window > 0 ? fmt::format(" in a window of {}", shape.window) : "");
    const AttentionBackwardArgs backward{
        .dout = dout, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse, .dq = dqkv, .dkv = dqkv};
    report_flops("attention" + size, flops,
                 [&] { ops_->attention(shape, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse}); });
    report_flops("attention_backward" + size, 2.5 * flops, [&] { ops_->attention_backward(shape, backward); });
    AttentionBackwardArgs turned = backward;
    turned.cos_sin = make({shape.queries, 2, shape.head_dim / 2}, DType::f32);
    report_flops("attention_backward + rotary" + size, 2.5 * flops, [&] { ops_->attention_backward(shape, turned); });
    report_flops("attention_backward, then rotary" + size, 2.5 * flops, [&] {
      ops_->attention_backward(shape, backward);
      ops_->rotary(shape, {.qkv = dqkv, .cos_sin = *turned.cos_sin, .inverse = true});
    });
    for (const bool deterministic : {false, true}) {
      bench::CudnnBackward cudnn(bench_.stream(), deterministic);
      report_flops(std::string("attention_backward of cuDNN") + (deterministic ? ", deterministic" : "") + size, 2.5 * flops,
                   [&] { cudnn.run(shape, backward); });
    }
    bench_.free_all();
  }

  // The queries follow this many keys; else they are the last of a sequence of `keys` tokens.
  void segment_attention(std::int64_t keys, SegmentShape shape) {
    shape.keys = keys;
    const bool behind = shape.first_query >= keys;
    if (!behind) shape.first_query = keys - shape.queries;
    const std::int64_t query_cols = shape.heads * shape.head_dim, key_cols = 2 * shape.kv_heads * shape.head_dim;
    const Tensor qkv = make({shape.queries, query_cols + key_cols}, DType::bf16), dqkv = make(qkv.shape, DType::bf16);
    const Tensor kv = make({keys, key_cols}, DType::bf16), dkv = make(kv.shape, DType::f32);
    const Tensor out = make({shape.queries, query_cols}, DType::bf16), dout = make(out.shape, DType::bf16);
    const Tensor lse = make({1, shape.heads, shape.queries}, DType::f32);
    const double seen = static_cast<double>(shape.queries) *
                        (static_cast<double>(keys) - (behind ? 0 : 0.5) * static_cast<double>(shape.queries));
    const double flops = 4.0 * static_cast<double>(query_cols) * seen;
    const std::string size = fmt::format(" {} tokens on {}{}, {} heads on {} of {}", shape.queries, keys,
                                         behind ? " before them" : "", shape.heads, shape.kv_heads, shape.head_dim);
    report_flops("segment_attention" + size, flops,
                 [&] { ops_->attention(shape, {.q = qkv, .kv = kv, .out = out, .log_sum_exp = lse}); });
    const AttentionBackwardArgs backward{.dout = dout,
                                         .q = qkv,
                                         .kv = kv,
                                         .out = out,
                                         .log_sum_exp = lse,
                                         .dq = dqkv,
                                         .dkv = dkv,
                                         .accumulate_dkv = Accumulate::yes};
    report_flops("segment_attention_backward" + size, 2.5 * flops, [&] { ops_->attention_backward(shape, backward); });
    bench_.free_all();
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    GpuBench(argc > 1 ? std::atoll(argv[1]) : 4096, argc > 2 ? argv[2] : "").run();
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_ops: error: {}\n", error.what());
    return exit_status(error.kind());
  }
  return 0;
}
