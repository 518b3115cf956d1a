#include "ops/timed_ops.hpp"

#include <utility>

#include "core/buffer.hpp"

namespace pipetrain {

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

class TimedOps : public Ops {
 public:
  TimedOps(std::unique_ptr<Ops> ops, std::shared_ptr<OpTimes> times) : ops_(std::move(ops)), times_(std::move(times)) {}

  Stream& stream() override { return ops_->stream(); }
  void set_workspace(Arena& workspace) override { ops_->set_workspace(workspace); }

  void gather_matmul(const TensorParallel& tp, MatmulKind kind, const GatherMatmulArgs& args) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->gather_matmul(tp, kind, args); },
        [&] {
          GatherMatmulArgs alone = args;
          if (tp.sequence_parallel) alone.shard = args.full;
          ops_->gather_matmul({}, kind, alone);
        });
  }
  void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const MatmulScatterArgs& args) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->matmul_scatter(tp, kind, args); },
        [&] {
          const Tensor out = scratch({args.in.rows(), product_cols(kind, args.w)}, args.out.dtype);
          ops_->matmul_scatter({}, kind, {.in = args.in, .w = args.w, .out = out, .bias = args.bias});
        });
  }
  void backward_scatter(const TensorParallel& tp, const BackwardScatterArgs& args) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->backward_scatter(tp, args); },
        [&] {
          BackwardScatterArgs alone = args;
          alone.dx = scratch({args.dy.rows(), args.w.cols()}, args.dx.dtype);
          alone.dw = scratch(args.dw.shape, args.dw.dtype, 1);
          ops_->backward_scatter({}, alone);
        });
  }
  void weight_grad(const WeightGradArgs& args) override {
    timed(OpClass::matrix, [&] { ops_->weight_grad(args); });
  }
  void quantise(const QuantiseArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->quantise(args); });
  }
  void fp8_matmul(const Fp8MatmulArgs& args) override {
    timed(OpClass::matrix, [&] { ops_->fp8_matmul(args); });
  }
  void fp8_matmul_scatter(const TensorParallel& tp, const Fp8MatmulArgs& args) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->fp8_matmul_scatter(tp, args); },
        [&] {
          const Tensor out = scratch({args.a.values.rows(), args.b.values.rows()}, args.out.dtype);
          ops_->fp8_matmul({.a = args.a, .b = args.b, .out = out});
        });
  }
  void gather(const TensorParallel& tp, const Tensor& shard, const Tensor& full) override {
    timed(between_ranks(tp), [&] { ops_->gather(tp, shard, full); });
  }
  void scatter_sum(const TensorParallel& tp, const Tensor& full, const Tensor& out) override {
    timed(between_ranks(tp), [&] { ops_->scatter_sum(tp, full, out); });
  }

  void embedding(const TensorParallel& tp, const Tensor& ids, const Tensor& table, std::int64_t first_id,
                 const Tensor& out) override {
    timed_both(
        tp, OpClass::elementwise, [&] { ops_->embedding(tp, ids, table, first_id, out); },
        [&] {
          ops_->embedding({}, ids, table, first_id, scratch({ids.elements(), table.cols()}, out.dtype));
        });
  }
  void embedding_grad(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) override {
    timed(OpClass::elementwise, [&] { ops_->embedding_grad(ids, dy, first_id, dtable); });
  }

  void rms_norm(const RmsNormArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->rms_norm(args); });
  }
  void rms_norm_backward(const RmsNormBackwardArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->rms_norm_backward(args); });
  }
  void rotary(const SegmentShape& shape, const RotaryArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->rotary(shape, args); });
  }
  void swiglu(const SwigluArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->swiglu(args); });
  }
  void swiglu_backward(const SwigluBackwardArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->swiglu_backward(args); });
  }

  void layer_norm(const LayerNormArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->layer_norm(args); });
  }
  void layer_norm_backward(const LayerNormBackwardArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->layer_norm_backward(args); });
  }
  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override {
    timed(OpClass::elementwise, [&] { ops_->gelu(x, bias, y); });
  }
  void gelu_backward(const GeluBackwardArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->gelu_backward(args); });
  }
  void copy_columns(const CopyColumnsArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->copy_columns(args); });
  }
  void add_bias(const Tensor& x, const Tensor& bias) override {
    timed(OpClass::elementwise, [&] { ops_->add_bias(x, bias); });
  }
  void bias_grad(const Tensor& dy, const Tensor& dbias) override {
    timed(OpClass::elementwise, [&] { ops_->bias_grad(dy, dbias); });
  }
  void add_positions(const AddPositionsArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->add_positions(args); });
  }
  void positions_grad(const PositionsGradArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->positions_grad(args); });
  }
  void dropout(const DropoutArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->dropout(args); });
  }

  void attention(const SegmentShape& shape, const AttentionArgs& args) override {
    timed(OpClass::attention, [&] { ops_->attention(shape, args); });
  }
  void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) override {
    timed(OpClass::attention, [&] { ops_->attention_backward(shape, args); });
  }
  void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) override {
    timed(OpClass::attention, [&] { ops_->cached_attention(shape, args); });
  }
  void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) override {
    timed(OpClass::attention, [&] { ops_->merge_attention(shape, args); });
  }

  void cross_entropy(const TensorParallel& tp, const CrossEntropyArgs& args) override {
    timed_both(
        tp, OpClass::elementwise, [&] { ops_->cross_entropy(tp, args); },
        [&] {
          CrossEntropyArgs alone = args;
          alone.log_sum_exp = scratch(args.log_sum_exp.shape, args.log_sum_exp.dtype);
          alone.loss_sum = scratch(args.loss_sum.shape, args.loss_sum.dtype, 1);
          ops_->cross_entropy({}, alone);
        });
  }
  void cross_entropy_with_gradient(const TensorParallel& tp, const CrossEntropyArgs& args, float scale) override {
    if (tp.size() > 1) return Ops::cross_entropy_with_gradient(tp, args, scale);  // the parts are timed
    timed(OpClass::elementwise, [&] { ops_->cross_entropy_with_gradient(tp, args, scale); });
  }
  void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) override {
    timed(OpClass::elementwise, [&] { ops_->counted_rows(logits, targets, rows); });
  }
  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) override {
    timed(OpClass::elementwise, [&] { ops_->cross_entropy_backward(args); });
  }

  void adamw(const AdamWArgs& args, const AdamW& settings) override {
    timed(OpClass::elementwise, [&] { ops_->adamw(args, settings); });
  }
  void copy(const Tensor& source, const Tensor& target) override {
    timed(OpClass::elementwise, [&] { ops_->copy(source, target); });
  }
  void round(const Tensor& source, const Tensor& target) override {
    timed(OpClass::elementwise, [&] { ops_->round(source, target); });
  }
  void adamw_preview(const AdamWArgs& args, const AdamW& settings, const Tensor& result) override {
    timed(OpClass::elementwise, [&] { ops_->adamw_preview(args, settings, result); });
  }
  void adamw_rounded(const AdamWArgs& args, const AdamW& settings, const Tensor& rounded) override {
    timed(OpClass::elementwise, [&] { ops_->adamw_rounded(args, settings, rounded); });
  }
  void square_sums(const Tensor& tensor, const Tensor& sums) override {
    timed(OpClass::elementwise, [&] { ops_->square_sums(tensor, sums); });
  }
  void square_sum(const Tensor& tensor, const Tensor& sum) override {
    timed(OpClass::elementwise, [&] { ops_->square_sum(tensor, sum); });
  }
  void add(const Tensor& target, const Tensor& source) override {
    timed(OpClass::elementwise, [&] { ops_->add(target, source); });
  }

 private:
  static OpClass between_ranks(const TensorParallel& tp) {
    return tp.size() > 1 ? OpClass::communication : OpClass::elementwise;
  }

  template <class Work>
  void timed(OpClass kind, Work work) {
    if (!times_->measuring()) return work();
    times_->time(stream(), kind, work);
  }
  template <class Work, class Alone>
  void timed_both(const TensorParallel& tp, OpClass kind, Work work, Alone alone) {
    if (tp.size() == 1 || !times_->measuring()) return timed(kind, work);
    times_->time_both(stream(), kind, work, alone);
  }

  // Where the second runs put their results, which nothing reads.
  Tensor scratch(const Shape& shape, DType dtype, std::size_t which = 0) {
    Tensor tensor{nullptr, shape, dtype};
    Buffer& memory = scratch_[which];
    if (tensor.bytes() > memory.bytes()) {
      stream().synchronize();
      memory = Buffer();
      memory = stream().device().allocate(tensor.bytes(), "the second runs of measured operations");
    }
    tensor.data = memory.data();
    return tensor;
  }

  std::unique_ptr<Ops> ops_;
  std::shared_ptr<OpTimes> times_;
  Buffer scratch_[2];
};

}  // namespace

std::unique_ptr<Ops> make_timed_ops(std::unique_ptr<Ops> ops, std::shared_ptr<OpTimes> times) {
  return std::make_unique<TimedOps>(std::move(ops), std::move(times));
}

}  // namespace pipetrain
