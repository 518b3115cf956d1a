// Compares the CPU's operations on one and two threads with the machine's own limits, measured in the same run: the
// matrix rate of one tile in GFLOP/s and the rate of a memory copy in GB/s. Also measures the cost of an operation that
// has next to nothing to do.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/matrix_rate.hpp"
#include "bench/result.hpp"
#include "core/buffer.hpp"
#include "core/device.hpp"
#include "ops/ops.hpp"

namespace pipetrain::bench {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Returns the best of several runs: the speed of an otherwise idle machine.
double best_seconds(const std::function<void()>& work) {
  work();
  double best = seconds_of(work), spent = best;
  for (int run = 1; run < 50 && (run < 3 || spent < 0.3); ++run) {
    const double seconds = seconds_of(work);
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

// The sizes of a model.
struct Sizes {
  std::string name;
  SegmentShape attention;
  std::int64_t inner = 0, vocabulary = 0;
  std::int64_t tokens() const { return attention.tokens(); }
  std::int64_t hidden() const { return attention.heads * attention.head_dim; }
};

class OpsBench {
 public:
  OpsBench(const Sizes& sizes, int threads)
      : sizes_(sizes),
        threads_(threads),
        device_(make_cpu_device(0, threads)),
        stream_(device_->make_stream("bench")),
        ops_(make_cpu_ops(*stream_)) {
    workspace_memory_ = device_->allocate(std::size_t{64} << 20, "workspace");
    workspace_ = Arena(workspace_memory_.data(), workspace_memory_.bytes(), "workspace");
    ops_->set_workspace(workspace_);
  }

  void run();

 private:
  Tensor make(const Shape& shape, DType dtype = DType::f32) {
    Tensor tensor{nullptr, shape, dtype};
    memory_.push_back(device_->allocate(tensor.bytes(), "bench tensor"));
    tensor.data = memory_.back().data();
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      if (dtype == DType::i32) {
        tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(sizes_.vocabulary));
      } else if (dtype == DType::f32) {
        tensor.as<float>()[i] = normal(random_);
      }
    }
    return tensor;
  }

  // One call does `amount` of `unit`; several calls in a row hide the time to reach the stream's thread and return.
  void measure(const std::string& name, double amount, const std::string& unit, const std::function<void()>& enqueue) {
    const int calls = sizes_.tokens() < 1000 ? 64 : 2;
    const double seconds = best_seconds([&] {
                             for (int i = 0; i < calls; ++i) enqueue();
                             stream_->synchronize();
                           }) /
                           calls;
    const std::string label = "cpu ops " + sizes_.name + " " + name + ", " + std::to_string(threads_) + " threads";
    report(label, amount / seconds * 1e-9, unit);
    report(label + ", time", seconds * 1e6, "us");
  }
  void products(const std::string& name, double multiplications, const std::function<void()>& enqueue) {
    measure(name, 2 * multiplications, "GFLOP/s", enqueue);
  }
  // floats: the number of floats read and written, each counted once.
  void passes(const std::string& name, double floats, const std::function<void()>& enqueue) {
    measure(name, 4 * floats, "GB/s", enqueue);
  }

  void matrices();
  void attention();
  void elementwise();
  void gpt2();
  void loss_and_embedding();
  void optimizer();

  Sizes sizes_;
  int threads_;
  std::mt19937_64 random_{1};
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> memory_;
  Buffer workspace_memory_;
  Arena workspace_ = Arena::measuring();
  std::unique_ptr<Ops> ops_;
};

void OpsBench::matrices() {
  const std::int64_t t = sizes_.tokens(), h = sizes_.hidden(), n = 2 * sizes_.inner;
  const Tensor x = make({t, h}), w = make({n, h}), y = make({t, n}), dx = make({t, h}), dw = make({n, h});
  const double count = static_cast<double>(t) * static_cast<double>(h) * static_cast<double>(n);
  products("matmul forward", count,
           [&] { ops_->gather_matmul({.kind = MatmulKind::forward, .shard = x, .w = w, .full = x, .out = y}); });
  products("matmul input grad", count,
           [&] { ops_->matmul_scatter({.kind = MatmulKind::input_grad, .in = y, .w = w, .out = dx}); });
  products("weight grad", count, [&] { ops_->weight_grad({.dy = y, .x = x, .dw = dw}); });
}

void OpsBench::attention() {
  const SegmentShape& a = sizes_.attention;
  const Tensor qkv = make({a.tokens(), a.packed_cols()}), dqkv = make(qkv.shape), out = make({a.tokens(), sizes_.hidden()});
  const Tensor dout = make(out.shape), sums = make({a.batch, a.heads, a.queries});
  const Tensor cos_sin = make({a.queries, 2, a.head_dim / 2});
  // Causal attention needs half of the scores. The forward has two products of that size, the backward five.
  const double pairs = static_cast<double>(a.tokens() * a.queries) / 2 * static_cast<double>(a.heads * a.head_dim);
  products("attention", 2 * pairs, [&] { ops_->attention(a, {.q = qkv, .kv = qkv, .out = out, .log_sum_exp = sums}); });
  products("attention backward", 5 * pairs, [&] {
    ops_->attention_backward(a, {.dout = dout, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = sums, .dq = dqkv, .dkv = dqkv});
  });
  const double rotated = static_cast<double>(a.tokens() * (a.heads + a.kv_heads) * a.head_dim);
  passes("rotary", 2 * rotated, [&] { ops_->rotary(a, {.qkv = dqkv, .cos_sin = cos_sin}); });
}

void OpsBench::elementwise() {
  const std::int64_t t = sizes_.tokens(), h = sizes_.hidden(), inner = sizes_.inner;
  const double narrow = static_cast<double>(t * h), wide = static_cast<double>(t * inner);
  const Tensor x = make({t, h}), dy = make({t, h}), y = make({t, h}), gain = make({h}), dgain = make({h}), inv_rms = make({t});
  passes("rms norm", 2 * narrow, [&] { ops_->rms_norm({.x = x, .weight = gain, .eps = 1e-5F, .y = y, .inv_rms = inv_rms}); });
  passes("rms norm backward", 3 * narrow,
         [&] { ops_->rms_norm_backward({.dy = dy, .x = x, .weight = gain, .inv_rms = inv_rms, .dx = y, .dweight = dgain}); });
  const Tensor gate_up = make({t, 2 * inner}), dgate_up = make(gate_up.shape), activated = make({t, inner});
  passes("swiglu", 3 * wide, [&] { ops_->swiglu({.gate_up = gate_up, .y = activated}); });
  passes("swiglu backward", 5 * wide,
         [&] { ops_->swiglu_backward({.dy = activated, .gate_up = gate_up, .dgate_up = dgate_up}); });
}

void OpsBench::gpt2() {
  const std::int64_t t = sizes_.tokens(), h = sizes_.hidden(), inner = 4 * h, sequence = sizes_.attention.queries;
  const double narrow = static_cast<double>(t * h), wide = static_cast<double>(t * inner);
  const Tensor x = make({t, h}), dy = make({t, h}), y = make({t, h}), gain = make({h}), shift = make({h}), mean = make({t});
  const Tensor inv_std = make({t}), dgain = make({h}), dshift = make({h}), table = make({sequence, h});
  passes("layer norm", 2 * narrow, [&] {
    ops_->layer_norm({.x = x, .weight = gain, .bias = shift, .eps = 1e-5F, .y = y, .mean = mean, .inv_std = inv_std});
  });
  passes("layer norm backward", 3 * narrow, [&] {
    ops_->layer_norm_backward(
        {.dy = dy, .x = x, .weight = gain, .mean = mean, .inv_std = inv_std, .dx = y, .dweight = dgain, .dbias = dshift});
  });
  passes("add positions", 2 * narrow, [&] { ops_->add_positions({.sequence = sequence, .table = table, .x = x}); });
  passes("positions grad", narrow, [&] { ops_->positions_grad({.sequence = sequence, .dy = dy, .dtable = table}); });
  const Tensor in = make({t, inner}), out = make({t, inner}), din = make({t, inner}), bias = make({inner}),
               dbias = make({inner});
  passes("gelu", 2 * wide, [&] { ops_->gelu(in, bias, out); });
  passes("gelu backward", 3 * wide,
         [&] { ops_->gelu_backward({.dy = out, .x = in, .bias = bias, .dx = din, .dbias = dbias}); });
  passes("add bias", 2 * wide, [&] { ops_->add_bias(out, bias); });
  passes("bias grad", wide, [&] { ops_->bias_grad(din, dbias); });
}

void OpsBench::loss_and_embedding() {
  const std::int64_t t = sizes_.tokens(), h = sizes_.hidden(), v = sizes_.vocabulary;
  const Tensor logits = make({t, v}), ids = make({t}, DType::i32), sums = make({t}), loss = make({1}, DType::f64);
  const Tensor table = make({v, h}), out = make({t, h});
  const double all = static_cast<double>(t * v), rows = static_cast<double>(t * h);
  passes("cross entropy", 2 * all, [&] {
    ops_->cross_entropy({.logits = logits, .targets = ids, .vocabulary = {0, v}, .log_sum_exp = sums, .loss_sum = loss});
  });
  passes("cross entropy backward", 2 * all, [&] {
    ops_->cross_entropy_backward({.logits = logits, .targets = ids, .vocabulary = {0, v}, .log_sum_exp = sums, .scale = 1e-3F});
  });
  passes("embedding", 2 * rows, [&] { ops_->embedding({.ids = ids, .table = table, .first_id = 0, .out = out}); });
  passes("embedding grad", 3 * rows, [&] { ops_->embedding_grad({.ids = ids, .dy = out, .first_id = 0, .dtable = table}); });
}

void OpsBench::optimizer() {
  const std::int64_t count = sizes_.inner * sizes_.hidden() * 3;
  const Tensor w = make({count}), g = make({count}), m = make({count}), v = make({count}), sum = make({1}, DType::f64);
  stream_->zero(v);
  const AdamW settings{.lr = 1e-4F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F};
  passes("adamw", 7 * static_cast<double>(count), [&] {
    ops_->update({.weight = w, .grad = g, .states = {m, v}, .rule = settings});
  });
  passes("square sum", static_cast<double>(count), [&] { ops_->square_sum(g, sum); });
  passes("add", 3 * static_cast<double>(count), [&] { ops_->add(m, g); });
}

void OpsBench::run() {
  for (const auto part : {&OpsBench::matrices, &OpsBench::attention, &OpsBench::elementwise, &OpsBench::gpt2,
                          &OpsBench::loss_and_embedding, &OpsBench::optimizer}) {
    (this->*part)();
    memory_.clear();
  }
}

void machine_limits() {
  for (const MatrixLibrary& library : matrix_libraries()) {
    double rate = 0;
    for (int run = 0; run < 10; ++run) rate = std::max(rate, matrix_rate(library, 1).wall);
    report(library.name + " sgemm 1024, 1 thread", rate, "GFLOP/s");
  }
  std::vector<char> from(std::size_t{256} << 20, 1), to(from.size());
  const double copy = best_seconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
  report("memory copy, 1 thread", 2 * static_cast<double>(from.size()) / copy * 1e-9, "GB/s");
}

}  // namespace
}  // namespace pipetrain::bench

int main() {
  using namespace pipetrain;
  for (const int threads : {1, 2}) {
    bench::OpsBench({"hidden 512 seq 512", whole_sequences(4, 512, {8, 8, 64}), 1376, 8192}, threads).run();
    bench::OpsBench({"hidden 64 seq 32", whole_sequences(1, 32, {4, 4, 16}), 176, 256}, threads).run();
  }
  bench::machine_limits();
}
