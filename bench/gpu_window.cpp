// Attention within a window beside attention to the whole sequence, forward and backward, on one GPU. See bench/README.md.
#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "bench/gpu/op_bench.hpp"
#include "bench/result.hpp"
#include "core/error.hpp"

using namespace pipetrain;

namespace {

struct WindowWork {
  std::int64_t sequence = 32768, window = 4096, sinks = 0;
};

struct AttentionSeconds {
  double forward = 0, backward = 0;
  double both() const { return forward + backward; }
};

AttentionSeconds measure_attention(bench::OpBench& bench, const SegmentShape& shape) {
  const int calls = shape.queries > 65536 ? 1 : 5;
  const Tensor qkv = bench.make({shape.tokens(), shape.packed_cols()}, DType::bf16), dqkv = bench.make(qkv.shape, DType::bf16);
  const Tensor out = bench.make({shape.tokens(), shape.query_cols()}, DType::bf16), dout = bench.make(out.shape, DType::bf16);
  const Tensor log_sum_exp = bench.make({shape.batch, shape.heads, shape.queries}, DType::f32);
  const AttentionArgs forward{.q = qkv, .kv = qkv, .out = out, .log_sum_exp = log_sum_exp};
  const AttentionBackwardArgs backward{
      .dout = dout, .q = qkv, .kv = qkv, .out = out, .log_sum_exp = log_sum_exp, .dq = dqkv, .dkv = dqkv};
  AttentionSeconds seconds;
  seconds.forward = bench.seconds(calls, [&](int) { bench.ops().attention(shape, forward); });
  seconds.backward = bench.seconds(calls, [&](int) { bench.ops().attention_backward(shape, backward); });
  bench.free_all();
  return seconds;
}

// The pairs of a query and a key that are computed without the window, by those within it, in blocks of 128 x 128.
double fewer_blocks(const WindowWork& work) {
  constexpr std::int64_t block = 128;
  std::int64_t whole = 0, within = 0;
  for (std::int64_t query = 0; query < work.sequence / block; ++query) {
    const std::int64_t first_key = query * block + 1 - work.window;
    whole += query + 1;
    within += query + 1 - (first_key > 0 ? first_key / block : 0);
  }
  return static_cast<double>(whole) / static_cast<double>(within);
}

// Measures attention without a window, within it, and within a window that hides nothing.
class WindowBench {
 public:
  WindowBench(bench::OpBench& bench, const WindowWork& work, const HeadShape& heads)
      : bench_(bench), shape_(whole_sequences(1, work.sequence, heads)) {
    measure(0, 0);  // brings the chip to the clock that it keeps
    whole = measure(0, 0), idle = measure(work.sequence, work.sinks), within = measure(work.window, work.sinks);
  }

  AttentionSeconds whole, idle, within;

 private:
  AttentionSeconds measure(std::int64_t window, std::int64_t sinks) {
    shape_.window = window, shape_.sinks = sinks;
    return measure_attention(bench_, shape_);
  }

  bench::OpBench& bench_;
  SegmentShape shape_;
};

// least: the speed beside the whole sequence's, 0: any
bool compare(bench::OpBench& bench, const WindowWork& work, const HeadShape& heads, double least) {
  const WindowBench measured(bench, work, heads);
  const AttentionSeconds &whole = measured.whole, &idle = measured.idle, &within = measured.within;
  const std::string name = fmt::format("attention of {} tokens within a window of {}{}, {} heads on {} of {}", work.sequence,
                                       work.window, work.sinks > 0 ? fmt::format(" and to {} sinks", work.sinks) : "",
                                       heads.heads, heads.kv_heads, heads.head_dim);
  fmt::print(stderr, "{}: {:.3f} + {:.3f} ms, whole {:.3f} + {:.3f} ms; blocks {:.2f} times fewer\n", name,
             1e3 * within.forward, 1e3 * within.backward, 1e3 * whole.forward, 1e3 * whole.backward, fewer_blocks(work));
  bench::report(name + ": speed of the forward beside the whole sequence's", whole.forward / within.forward, "ratio");
  bench::report(name + ": speed of the backward beside the whole sequence's", whole.backward / within.backward, "ratio");
  bool pass = bench::report(name + ": speed beside the whole sequence's", whole.both() / within.both(), "ratio",
                            least > 0 ? bench::Limit::at_least : bench::Limit::none, least);
  pass &= bench::report(name + ": time of a window that hides nothing beside no window", idle.both() / whole.both(), "ratio",
                        bench::Limit::at_most, 1.02);
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    WindowWork work;
    if (argc > 1) work.sequence = std::atoll(argv[1]);
    if (argc > 2) work.window = std::atoll(argv[2]);
    if (argc > 3) work.sinks = std::atoll(argv[3]);
    if (work.sequence < 128 || work.window < 1 || work.sinks < 0)
      throw Error(ErrorKind::input, "usage: bench_gpu_window [SEQUENCE, 128 or more [WINDOW, 1 or more [SINKS]]]");
    constexpr HeadShape llama_1b{32, 8, 64};
    const bool asked = argc > 1;
    bench::OpBench bench = bench::gpu_op_bench();
    bool pass = true;
    if (work.sinks == 0)
      for (const HeadShape& heads : {HeadShape{32, 8, 128}, llama_1b, HeadShape{16, 8, 256}})
        pass &= compare(bench, work, heads, asked ? 0 : 3.3);
    if (work.sinks > 0) pass &= compare(bench, work, llama_1b, 0);
    if (!asked) pass &= compare(bench, {.sequence = 131072, .window = 4096, .sinks = 64}, llama_1b, 6);
    return pass ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "bench_gpu_window: error: {}\n", error.what());
    return exit_status(error.kind());
  }
}
