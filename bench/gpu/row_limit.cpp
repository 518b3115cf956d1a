#include "bench/gpu/row_limit.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "bench/gpu/our_run.hpp"
#include "core/process_group.hpp"
#include "files/json.hpp"
#include "model/blocks/fp8_memory.hpp"
#include "model/config/config.hpp"
#include "model/parameters/block_plan.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {
namespace {

struct Matrix {
  const char* name;
  std::int64_t outputs, inputs;
  double calls;
};

// A tied head is a product too.
std::vector<Matrix> matrices_of(const Row& row) {
  const ModelConfig config = preset_config(row.model);
  const double layers = row.layers > 0 ? row.layers : static_cast<double>(config.layers);
  const std::int64_t heads = config.heads * config.head_dim / row.tp;
  const std::int64_t packed = (config.heads + 2 * config.kv_heads) * config.head_dim / row.tp;
  const std::int64_t inner = config.intermediate / row.tp;
  const bool gated = config.activation != Activation::gelu;
  const std::int64_t vocabulary = whole_vectors(RowSplit(config.vocabulary, row.tp).count(0));
  return {{"qkv", packed, config.hidden, layers},
          {"o", config.hidden, heads, layers},
          {gated ? "gate_up" : "up", gated ? 2 * inner : inner, config.hidden, layers},
          {"down", config.hidden, inner, layers},
          {"head", vocabulary, config.hidden, 1}};
}

SegmentShape attention_of(const Row& row) {
  const ModelConfig config = preset_config(row.model);
  return whole_sequences(row.microbatch, row.sequence, {config.heads / row.tp, config.kv_heads / row.tp, config.head_dim});
}

// Returns the tokens of a microbatch on one rank.
std::int64_t tokens_of(const Row& row) { return row.microbatch * row.sequence / row.cp; }

bool is_attention(const LimitOp& op) { return op.name.starts_with("attention"); }

struct ProductTensors {
  Tensor x, w, dy, y, dx, dw;
};

// Adds the three products of a matrix whose factors are rounded once.
void add_fp8_calls(OpBench& bench, const ProductTensors& t, bool blocks, std::vector<std::function<void()>>& calls) {
  Ops& ops = bench.ops();
  const auto rounded = [&](const Tensor& x, DType type, Fp8Scales scales) {
    const Fp8Matrix matrix = bench.make_fp8(x.shape, blocks ? DType::e4m3 : type, blocks ? scales : Fp8Scales::tensor);
    ops.quantise({.x = x, .out = matrix});
    return matrix;
  };
  const Fp8Matrix x = rounded(t.x, DType::e4m3, Fp8Scales::tiles), w = rounded(t.w, DType::e4m3, Fp8Scales::blocks);
  const Fp8Matrix dy = rounded(t.dy, DType::e5m2, Fp8Scales::tiles);
  const Fp8Operand x_rows = rows_of(x), x_cols = cols_of(x), w_rows = rows_of(w), w_cols = cols_of(w);
  const Fp8Operand dy_rows = rows_of(dy), dy_cols = cols_of(dy);
  calls.emplace_back([=, &ops] { ops.fp8_matmul({.a = x_rows, .b = w_rows, .out = t.y}); });
  calls.emplace_back([=, &ops] { ops.fp8_matmul({.a = dy_rows, .b = w_cols, .out = t.dx}); });
  calls.emplace_back([=, &ops] { ops.fp8_matmul({.a = dy_cols, .b = x_cols, .addend = t.dw, .out = t.dw}); });
}

// Returns the calls of limit_ops(), in the same order. Tensors that grow with each call are never read.
std::vector<std::function<void()>> calls_of(OpBench& bench, const Row& row) {
  const DType dtype = row.on_cpu ? DType::f32 : DType::bf16;
  const std::int64_t tokens = tokens_of(row);
  Ops& ops = bench.ops();
  std::vector<std::function<void()>> calls;
  for (const Matrix& matrix : matrices_of(row)) {
    const Tensor x = bench.make({tokens, matrix.inputs}, dtype), dx = bench.make(x.shape, dtype);
    const Tensor y = bench.make({tokens, matrix.outputs}, dtype), dy = bench.make(y.shape, dtype);
    const Tensor w = bench.make({matrix.outputs, matrix.inputs}, dtype), dw = bench.make(w.shape, DType::f32);
    if (row.fp8 && std::string_view(matrix.name) != "head") {
      add_fp8_calls(bench, {x, w, dy, y, dx, dw}, row.fp8_blocks, calls);
      continue;
    }
    calls.emplace_back(
        [=, &ops] { ops.gather_matmul({.kind = MatmulKind::forward, .shard = x, .w = w, .full = x, .out = y}); });
    calls.emplace_back(
        [=, &ops] { ops.gather_matmul({.kind = MatmulKind::input_grad, .shard = dy, .w = w, .full = dy, .out = dx}); });
    calls.emplace_back([=, &ops] { ops.weight_grad({.dy = dy, .x = x, .dw = dw}); });
  }
  const SegmentShape shape = attention_of(row);
  const Tensor qkv = bench.make({shape.tokens(), shape.packed_cols()}, dtype), dqkv = bench.make(qkv.shape, dtype);
  const Tensor out = bench.make({shape.tokens(), shape.heads * shape.head_dim}, dtype), dout = bench.make(out.shape, dtype);
  const Tensor lse = bench.make({shape.batch, shape.heads, shape.queries}, DType::f32);
  calls.emplace_back([=, &ops] { ops.attention(shape, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse}); });
  calls.emplace_back([=, &ops] {
    ops.attention_backward(shape, {.dout = dout, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = lse, .dq = dqkv, .dkv = dqkv});
  });
  return calls;
}

// The head runs once in a step for all its layers, too seldom to be called as often as they are.
constexpr int rounds_to_a_head = 8;

class TimedCalls {
 public:
  TimedCalls(OpBench& bench, const std::vector<LimitOp>& ops, std::vector<std::function<void()>> calls)
      : bench_(bench), calls_(std::move(calls)), seconds_(calls_.size()) {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      begin_.push_back(bench.device().make_timing_event());
      end_.push_back(bench.device().make_timing_event());
      seldom_.push_back(ops[i].name.starts_with("head"));
    }
  }

  // Alternates over all calls for this many seconds, at least twice.
  void run(double seconds, bool keep) {
    const auto start = std::chrono::steady_clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
    for (int round = 0; round < 2 || passed() < seconds; ++round) {
      for (std::size_t i = 0; i < calls_.size(); ++i) {
        if (is_left_out(i, round)) continue;
        bench_.stream().record(*begin_[i]);
        calls_[i]();
        bench_.stream().record(*end_[i]);
      }
      bench_.stream().synchronize();
      for (std::size_t i = 0; keep && i < calls_.size(); ++i) {
        if (!is_left_out(i, round)) seconds_[i].push_back(bench_.device().seconds_between(*begin_[i], *end_[i]));
      }
    }
  }
  double median(std::size_t i) const { return spread_of(seconds_[i]).median; }

 private:
  bool is_left_out(std::size_t i, int round) const { return seldom_[i] && round % rounds_to_a_head != 0; }

  OpBench& bench_;
  std::vector<std::function<void()>> calls_;
  std::vector<std::unique_ptr<Event>> begin_, end_;
  std::vector<bool> seldom_;
  std::vector<std::vector<double>> seconds_;
};

}  // namespace

std::vector<LimitOp> limit_ops(const Row& row) {
  std::vector<LimitOp> ops;
  for (const Matrix& matrix : matrices_of(row)) {
    const double flops = 2.0 * static_cast<double>(tokens_of(row)) * static_cast<double>(matrix.outputs * matrix.inputs);
    for (const char* kind : {" forward", " input_grad", " weight_grad"})
      ops.push_back({std::string(matrix.name) + kind, flops, matrix.calls});
  }
  const SegmentShape shape = attention_of(row);
  const double layers = ops.front().calls / row.cp;  // the ranks of a sequence share its attention
  const double flops = 2.0 * static_cast<double>(shape.batch * shape.heads * shape.queries * shape.queries * shape.head_dim);
  ops.push_back({"attention forward", flops, layers});
  ops.push_back({"attention backward", 2.5 * flops, layers});
  return ops;
}

void measure_limit(OpBench& bench, const Row& row, std::vector<LimitOp>& ops, double warm_up, double measure) {
  TimedCalls calls(bench, ops, calls_of(bench, row));
  calls.run(warm_up, false);
  calls.run(measure, true);
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].seconds = calls.median(i);
  bench.free_all();
}

std::string to_json(const std::vector<LimitOp>& ops) {
  auto list = Json::array();
  for (const LimitOp& op : ops)
    list.push_back(Json::object({{"name", op.name}, {"flops", op.flops}, {"calls", op.calls}, {"seconds", op.seconds}}));
  return list.dump();
}

std::vector<LimitOp> limit_from_json(const std::string& text) {
  std::vector<LimitOp> ops;
  for (const Json& op : parse_json(text, {"the operations' times", false}))
    ops.push_back(
        {op.at("name").as_string(), op.at("flops").as_double(), op.at("calls").as_double(), op.at("seconds").as_double()});
  return ops;
}

RowLimit limit_of(const Row& row, const std::vector<LimitOp>& ops) {
  double all = 0, matrix_flops = 0, matrix_seconds = 0, attention_flops = 0, attention_seconds = 0;
  for (const LimitOp& op : ops) {
    all += op.calls * op.seconds;
    (is_attention(op) ? attention_flops : matrix_flops) += op.calls * op.flops;
    (is_attention(op) ? attention_seconds : matrix_seconds) += op.calls * op.seconds;
  }
  // The tp ranks of a stage compute the same tokens together; stages and replicas only divide the microbatches.
  return {static_cast<double>(tokens_of(row)) / (all * row.tp), matrix_flops / matrix_seconds * 1e-12,
          attention_flops / attention_seconds * 1e-12};
}

}  // namespace pipetrain::bench
