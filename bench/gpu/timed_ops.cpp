#include "bench/gpu/timed_ops.hpp"

#include <type_traits>
#include <utility>

#include "core/buffer.hpp"

namespace pipetrain::bench {

void OpTimes::begin(Stream& stream, OpClass kind) {
  collect();
  if (spare_.empty()) spare_.emplace_back(stream.device().make_timing_event(), stream.device().make_timing_event());
  running_.push_back({kind, false, &stream.device(), std::move(spare_.back().first), std::move(spare_.back().second)});
  spare_.pop_back();
  stream.record(*running_.back().begin);
}

void OpTimes::end(Stream& stream) { stream.record(*running_.back().end); }

void OpTimes::collect() {
  while (!running_.empty() && running_.front().end->query()) {
    Running first = std::move(running_.front());
    running_.pop_front();
    const double seconds = first.device->seconds_between(*first.begin, *first.end);
    seconds_of(first.kind) += seconds;
    if (first.taken_out) seconds_.communication -= seconds;
    spare_.emplace_back(std::move(first.begin), std::move(first.end));
  }
}

OpTimes::Seconds OpTimes::take() {
  collect();
  return std::exchange(seconds_, {});
}

double& OpTimes::seconds_of(OpClass kind) {
  switch (kind) {
    case OpClass::matrix:
      return seconds_.matrix;
    case OpClass::attention:
      return seconds_.attention;
    case OpClass::elementwise:
      return seconds_.elementwise;
    default:
      return seconds_.communication;
  }
}

namespace {

// Operations with communication count as the kind that they are without it.
template <class Args>
constexpr OpClass class_of(const Args&) {
  return OpClass::elementwise;
}
constexpr OpClass class_of(const GatherMatmulArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const MatmulScatterArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const BackwardScatterArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const WeightGradArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const GroupedMatmulArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const GroupedFp8MatmulArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const GroupedWeightGradArgs&) { return OpClass::matrix; }
constexpr OpClass class_of(const Fp8MatmulArgs&) { return OpClass::matrix; }
template <class Args>
constexpr OpClass class_of(const OfSegments<Args>&) {
  constexpr bool elementwise =
      std::is_same_v<Args, RotaryArgs> || std::is_same_v<Args, HeadNormsArgs> || std::is_same_v<Args, HeadNormsBackwardArgs>;
  return elementwise ? OpClass::elementwise : OpClass::attention;
}
OpClass between_ranks(const TensorParallel& tp) { return tp.size() > 1 ? OpClass::communication : OpClass::elementwise; }
OpClass class_of(const GatherArgs& args) { return between_ranks(args.tp); }
OpClass class_of(const ScatterSumArgs& args) { return between_ranks(args.tp); }
OpClass class_of(const SumCopiesArgs& args) { return between_ranks(args.tp); }

// The memory for results of operations' second runs, which nothing reads.
class Unread {
 public:
  explicit Unread(Ops& ops) : ops_(ops) {}

  Tensor make(const Shape& shape, DType dtype, std::size_t which = 0) {
    Tensor tensor{nullptr, shape, dtype};
    Buffer& memory = memory_[which];
    if (tensor.bytes() > memory.bytes()) {
      ops_.stream().synchronize();
      memory = Buffer();
      memory = ops_.stream().device().allocate(tensor.bytes(), "the second runs of measured operations");
    }
    tensor.data = memory.data();
    return tensor;
  }

 private:
  Ops& ops_;
  Buffer memory_[2];
};

// Changes the operation into that of a single rank, with its results elsewhere.
GatherMatmulArgs alone(GatherMatmulArgs args, Unread&) {
  if (args.tp.sequence_parallel) args.shard = args.full;
  args.tp = {};
  return args;
}
MatmulScatterArgs alone(const MatmulScatterArgs& args, Unread& unread) {
  const Tensor out = unread.make({args.in.rows(), product_cols(args.kind, args.w)}, args.out.dtype);
  return {.kind = args.kind, .in = args.in, .w = args.w, .out = out, .bias = args.bias};
}
BackwardScatterArgs alone(BackwardScatterArgs args, Unread& unread) {
  args.tp = {};
  args.dx = unread.make({args.dy.rows(), args.w.cols()}, args.dx.dtype);
  args.dw = unread.make(args.dw.shape, args.dw.dtype, 1);
  return args;
}
Fp8MatmulArgs alone(const Fp8MatmulArgs& args, Unread& unread) {
  return {.a = args.a, .b = args.b, .out = unread.make({args.a.values.rows(), args.b.values.rows()}, args.out.dtype)};
}
EmbeddingArgs alone(EmbeddingArgs args, Unread& unread) {
  args.tp = {};
  args.out = unread.make({args.ids.elements(), args.table.cols()}, args.out.dtype);
  return args;
}
CrossEntropyArgs alone(CrossEntropyArgs args, Unread& unread) {
  args.tp = {};
  args.log_sum_exp = unread.make(args.log_sum_exp.shape, args.log_sum_exp.dtype);
  args.loss_sum = unread.make(args.loss_sum.shape, args.loss_sum.dtype, 1);
  return args;
}

class TimedOps final : public Ops {
 public:
  TimedOps(std::unique_ptr<Ops> ops, std::shared_ptr<OpTimes> times)
      : ops_(std::move(ops)), times_(std::move(times)), unread_(*ops_) {}

  Stream& stream() override { return ops_->stream(); }
  void set_workspace(Arena& workspace) override { ops_->set_workspace(workspace); }
  void run(const Operation& operation) override {
    if (!times_->measuring()) return ops_->run(operation);
    std::visit([&](const auto* args) { measure(operation, *args); }, operation);
  }

 private:
  template <class Args>
  void measure(const Operation& operation, const Args& args) {
    const auto work = [&] { ops_->run(operation); };
    if constexpr (requires { alone(args, unread_); }) {
      if (args.tp.size() > 1) {
        const auto own = alone(args, unread_);
        return times_->time_both(stream(), class_of(args), work, [&] { ops_->run(&own); });
      }
    }
    times_->time(stream(), class_of(args), work);
  }
  // The gradient overwrites the logits, so that the losses cannot be computed a second time after it.
  void measure(const Operation& operation, const CrossEntropyArgs& args) {
    if (args.tp.size() == 1 || !args.gradient_scale) return measure<CrossEntropyArgs>(operation, args);
    CrossEntropyArgs losses = args;
    losses.gradient_scale.reset();
    cross_entropy(losses);
    cross_entropy_backward(args.backward());
  }

  std::unique_ptr<Ops> ops_;
  std::shared_ptr<OpTimes> times_;
  Unread unread_;
};

}  // namespace

std::unique_ptr<Ops> make_timed_ops(std::unique_ptr<Ops> ops, std::shared_ptr<OpTimes> times) {
  return std::make_unique<TimedOps>(std::move(ops), std::move(times));
}

}  // namespace pipetrain::bench
