// Measures the operations of routed experts on a GPU, at the shapes of models with presets. Grouped products stand beside dense
// ones of as many rows. The gradient of one matrix is read and written once for all rows, those of all experts once for the
// rows of each: weight gradients therefore also stand beside a dense product that adds to as much memory for as many
// operations, of one expert's rows and a matrix with the rows of all experts' matrices. "even" has 1,024 rows an expert,
// "drawn" the routing of a microbatch of 4,096 tokens by random logits.
//
// bench_gpu_experts [MODEL]     models with MODEL in their names
#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/op_bench.hpp"
#include "bench/result.hpp"
#include "core/device_name.hpp"
#include "model/config/config.hpp"

using namespace pipetrain;

namespace {

class ExpertsBench {
 public:
  explicit ExpertsBench(std::string model)
      : model_(std::move(model)), config_(preset_config(model_)), bench_(bench::gpu_op_bench()) {}

  void run() {
    const std::int64_t experts = config_.experts.count, inner = config_.experts.intermediate, hidden = config_.hidden;
    const std::int64_t rows = tokens * config_.experts.chosen;
    for (const auto& [name, n, k] : {std::tuple{"in", 2 * inner, hidden}, {"out", hidden, inner}}) {
      products(std::string(name) + ", even", n, k, even_offsets(experts), experts * 1024);
      bench_.free_all();
      products(std::string(name) + ", drawn", n, k, drawn_routing().offsets, rows);
      bench_.free_all();
      if (cuda_multiplies_fp8(0)) products_in_8_bits(name, n, k, rows);
      bench_.free_all();
    }
    elementwise(rows, inner, hidden);
    fmt::print(stderr, "{}", table_);
  }

 private:
  static constexpr std::int64_t tokens = 4096;

  std::string model_;
  ModelConfig config_;
  bench::OpBench bench_;
  Ops* ops_ = &bench_.ops();
  std::string table_;

  Tensor make(const Shape& shape, DType dtype = DType::bf16) { return bench_.make(shape, dtype); }
  double seconds(double guess, const std::function<void()>& call) {
    return bench_.seconds(static_cast<int>(std::clamp(20e-3 / guess, 3.0, 100.0)), [&](int) { call(); });
  }

  Tensor even_offsets(std::int64_t experts) {
    std::vector<std::int32_t> values;
    for (std::int64_t e = 0; e <= experts; ++e) values.push_back(static_cast<std::int32_t>(e * 1024));
    const Tensor offsets = make({experts + 1}, DType::i32);
    bench_.stream().copy(offsets.data, values.data(), offsets.bytes());
    bench_.stream().synchronize();
    return offsets;
  }
  Routing make_routing() {
    const std::int64_t experts = config_.experts.count, chosen = config_.experts.chosen;
    return {.probabilities = make({tokens, experts}, DType::f32),
            .log_sum_exp = make({tokens}, DType::f32),
            .experts = make({tokens, chosen}, DType::i32),
            .places = make({tokens, chosen}, DType::i32),
            .tokens = make({tokens * chosen}, DType::i32),
            .weights = make({tokens * chosen}, DType::f32),
            .offsets = make({experts + 1}, DType::i32)};
  }
  Routing drawn_routing() {
    const Routing routing = make_routing();
    ops_->route({.logits = make({tokens, config_.experts.count}, DType::f32), .normalised = true, .routing = routing});
    return routing;
  }

  // The same product of all rows, in groups and with a single matrix.
  struct Pair {
    const char* name;
    std::function<void()> grouped, dense;
    std::function<void()> of_all = {};  // weight gradients: the dense product with the gradients of all experts
  };
  void products(const std::string& name, std::int64_t n, std::int64_t k, const Tensor& offsets, std::int64_t rows) {
    const std::int64_t experts = config_.experts.count;
    const Tensor x = make({rows, k}), y = make({rows, n}), w = make({experts * n, k}), dw = make({experts * n, k}, DType::f32),
                 one = w.row_range(0, n), done = dw.row_range(0, n), few = x.row_range(0, rows / experts);
    const Tensor broad{y.data, {rows / experts, experts * n}, y.dtype};
    using enum MatmulKind;
    const std::array pairs{
        Pair{"forward", [&] { ops_->grouped_matmul({.kind = forward, .in = x, .w = w, .offsets = offsets, .out = y}); },
             [&] { ops_->gather_matmul({.kind = forward, .shard = x, .w = one, .full = x, .out = y}); }},
        Pair{"input gradient",
             [&] { ops_->grouped_matmul({.kind = input_grad, .in = y, .w = w, .offsets = offsets, .out = x}); },
             [&] { ops_->gather_matmul({.kind = input_grad, .shard = y, .w = one, .full = y, .out = x}); }},
        Pair{"weight gradient", [&] { ops_->grouped_weight_grad({.dy = y, .x = x, .offsets = offsets, .dw = dw}); },
             [&] { ops_->weight_grad({.dy = y, .x = x, .dw = done}); },
             [&] { ops_->weight_grad({.dy = broad, .x = few, .dw = dw}); }}};
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k);
    for (const Pair& pair : pairs) {
      bench_.fill(x), bench_.fill(y);
      const double grouped = seconds(flops / 5e14, pair.grouped), dense = seconds(flops / 7e14, pair.dense);
      const std::string what = fmt::format("{} {}, {} of {} x {}", model_, name, pair.name, n, k);
      bench::report("gpu experts " + what, flops / grouped * 1e-12, "TFLOP/s");
      table_ += fmt::format("{:<62} {:8.1f} us {:5.0f} TFLOP/s, {:5.2f} of dense ({:4.0f})\n", what, grouped * 1e6,
                            flops / grouped * 1e-12, dense / grouped, flops / dense * 1e-12);
      if (!pair.of_all) continue;
      const double all = seconds(flops / 4e14, pair.of_all);
      table_ += fmt::format("{:<62} {:8.1f} us {:5.0f} TFLOP/s, {:5.2f} of it\n",
                            "    dense, with the gradients of all experts", all * 1e6, flops / all * 1e-12, all / grouped);
    }
  }

  // Products of a drawn routing in 8 bits beside those in bf16, and the rounding of their rows.
  void products_in_8_bits(const std::string& name, std::int64_t n, std::int64_t k, std::int64_t rows) {
    using enum MatmulKind;
    const std::int64_t experts = config_.experts.count;
    const Tensor offsets = drawn_routing().offsets, used = offsets.row_range(experts, experts + 1), x = make({rows, k}),
                 y = make({rows, n}), w = make({experts * n, k});
    const auto rounded = [&](const Tensor& tensor, DType type) {
      return Fp8Matrix{.rows = make(tensor.shape, type), .scale = make({2}, DType::f32)};
    };
    const Fp8Matrix qx = rounded(x, DType::e4m3), qy = rounded(y, DType::e5m2);
    Fp8Matrix qw = rounded(w, DType::e4m3);
    qw.cols = make({k, round_up_to_fp8(experts * n)}, DType::e4m3);
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k);
    ops_->quantise({.x = w, .out = qw});
    for (const bool forth : {true, false}) {
      const Tensor &in = forth ? x : y, &out = forth ? y : x;
      const Fp8Matrix& q = forth ? qx : qy;
      const MatmulKind kind = forth ? forward : input_grad;
      bench_.fill(x), bench_.fill(y);
      const double rounding =
          seconds(static_cast<double>(in.bytes()) / 1e12, [&] { ops_->quantise({.x = in, .out = q, .used = used}); });
      const Fp8Operand matrices{forth ? qw.rows : qw.cols, qw.scale};
      const double taken = seconds(flops / 9e14, [&] {
        ops_->grouped_fp8_matmul({.kind = kind, .in = {q.rows, q.scale}, .w = matrices, .offsets = offsets, .out = out});
      });
      const double bf16 = seconds(
          flops / 5e14, [&] { ops_->grouped_matmul({.kind = kind, .in = in, .w = w, .offsets = offsets, .out = out}); });
      const std::string what =
          fmt::format("{} {}, fp8 {} of {} x {}", model_, name, forth ? "forward" : "input gradient", n, k);
      bench::report("gpu experts " + what, flops / taken * 1e-12, "TFLOP/s");
      table_ += fmt::format("{:<62} {:8.1f} us {:5.0f} TFLOP/s, {:5.2f} of bf16 ({:8.1f} us); rows rounded in {:6.1f} us\n",
                            what, taken * 1e6, flops / taken * 1e-12, bf16 / taken, bf16 * 1e6, rounding * 1e6);
    }
  }

  void elementwise(std::int64_t rows, std::int64_t inner, std::int64_t hidden) {
    const Routing routing = drawn_routing();
    const Tensor logits = make({tokens, config_.experts.count}, DType::f32),
                 counts = make({1, config_.experts.count}, DType::i32), x = make({tokens, hidden}), wide = make({rows, hidden}),
                 narrow = make({rows, inner}), both = make({rows, 2 * inner}), dweights = make({rows}, DType::f32),
                 statistics = make({config_.experts.count + 3}, DType::f64);
    const double row = 2.0 * static_cast<double>(rows);
    time("route", 0, [&] { ops_->route({.logits = logits, .normalised = true, .routing = routing}); });
    time("count_experts", 0, [&] { ops_->count_experts({.experts = routing.experts, .counts = counts}); });
    time("route_backward", 0, [&] {
      ops_->route_backward({.routing = routing,
                            .normalised = true,
                            .dweights = dweights,
                            .losses = RouterLosses{.counts = counts, .balance_scale = 1e-3F},
                            .dlogits = logits,
                            .statistics = statistics});
    });
    time("gather_rows", row * static_cast<double>(hidden),
         [&] { ops_->gather_rows({.x = x, .tokens = routing.tokens, .rows = wide}); });
    time("sum_rows", row * static_cast<double>(hidden),
         [&] { ops_->sum_rows({.rows = wide, .places = routing.places, .residual = x, .out = x}); });
    const double part = row * static_cast<double>(inner);
    time("swiglu", 3 * part, [&] { ops_->swiglu({.gate_up = both, .y = narrow}); });
    time("swiglu with weights", 3 * part, [&] { ops_->swiglu({.gate_up = both, .y = narrow, .weights = routing.weights}); });
    time("swiglu_backward", 5 * part, [&] { ops_->swiglu_backward({.dy = narrow, .gate_up = both, .dgate_up = both}); });
    time("weighed_swiglu_backward", 5 * part, [&] {
      ops_->weighed_swiglu_backward(
          {.dy = narrow, .gate_up = both, .weights = routing.weights, .dgate_up = both, .dweights = dweights});
    });
  }
  void time(const std::string& name, double bytes, const std::function<void()>& call) {
    const double taken = seconds(std::max(bytes / 3e12, 20e-6), call);
    bench::report(fmt::format("gpu experts {} {}", model_, name), taken * 1e6, "us");
    table_ += fmt::format("{:<62} {:8.1f} us {:5.0f} GB/s\n", model_ + " " + name, taken * 1e6, bytes / taken * 1e-9);
  }
};

}  // namespace

int main(int argc, char** argv) try {
  const std::string only = argc > 1 ? argv[1] : "";
  for (const char* const model : {"qwen3-30b-a3b", "olmoe-1b-7b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b"}) {
    if (std::string(model).find(only) != std::string::npos) ExpertsBench(model).run();
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "error: {}\n", error.what());
  return 1;
}
