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

  void gather_matmul(const TensorParallel& tp, MatmulKind kind, const Tensor& shard, const Tensor& w, const Tensor& full,
                     const Tensor& out) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->gather_matmul(tp, kind, shard, w, full, out); },
        [&] { ops_->gather_matmul({}, kind, tp.sequence_parallel ? full : shard, w, full, out); });
  }
  void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const Tensor& in, const Tensor& w, const Tensor* residual,
                      const Tensor& out) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->matmul_scatter(tp, kind, in, w, residual, out); },
        [&] {
          ops_->matmul_scatter({}, kind, in, w, nullptr, scratch({in.rows(), product_cols(kind, w)}, out.dtype));
        });
  }
  void backward_scatter(const TensorParallel& tp, const Tensor& dy, const Tensor& w, const Tensor& dx, const Tensor& x,
                        const Tensor& dw, Accumulate accumulate) override {
    timed_both(
        tp, OpClass::matrix, [&] { ops_->backward_scatter(tp, dy, w, dx, x, dw, accumulate); },
        [&] {
          const Tensor scratch_dx = scratch({dy.rows(), w.cols()}, dx.dtype);
          ops_->backward_scatter({}, dy, w, scratch_dx, x, scratch(dw.shape, dw.dtype, 1), accumulate);
        });
  }
  void weight_grad(const Tensor& dy, const Tensor& x, const Tensor& dw, Accumulate accumulate) override {
    timed(OpClass::matrix, [&] { ops_->weight_grad(dy, x, dw, accumulate); });
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

  void rms_norm(const Tensor& x, const Tensor& weight, float eps, const Tensor& y, const Tensor& inv_rms) override {
    timed(OpClass::elementwise, [&] { ops_->rms_norm(x, weight, eps, y, inv_rms); });
  }
  void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& inv_rms, const Tensor* residual,
                         const Tensor& dx, const Tensor& dweight) override {
    timed(OpClass::elementwise, [&] { ops_->rms_norm_backward(dy, x, weight, inv_rms, residual, dx, dweight); });
  }
  void rotary(const AttentionShape& shape, const Tensor& qkv, const Tensor& cos_sin, bool inverse) override {
    timed(OpClass::elementwise, [&] { ops_->rotary(shape, qkv, cos_sin, inverse); });
  }
  void swiglu(const Tensor& gate_up, const Tensor& y) override {
    timed(OpClass::elementwise, [&] { ops_->swiglu(gate_up, y); });
  }
  void swiglu_backward(const Tensor& dy, const Tensor& gate_up, const Tensor& dgate_up) override {
    timed(OpClass::elementwise, [&] { ops_->swiglu_backward(dy, gate_up, dgate_up); });
  }

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps, const Tensor& y, const Tensor& mean,
                  const Tensor& inv_std) override {
    timed(OpClass::elementwise, [&] { ops_->layer_norm(x, weight, bias, eps, y, mean, inv_std); });
  }
  void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                           const Tensor* residual, const Tensor& dx, const Tensor& dweight, const Tensor& dbias) override {
    timed(OpClass::elementwise, [&] { ops_->layer_norm_backward(dy, x, weight, mean, inv_std, residual, dx, dweight, dbias); });
  }
  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override {
    timed(OpClass::elementwise, [&] { ops_->gelu(x, bias, y); });
  }
  void gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& bias, const Tensor& dx, const Tensor& dbias) override {
    timed(OpClass::elementwise, [&] { ops_->gelu_backward(dy, x, bias, dx, dbias); });
  }
  void add_bias(const Tensor& x, const Tensor& bias) override {
    timed(OpClass::elementwise, [&] { ops_->add_bias(x, bias); });
  }
  void bias_grad(const Tensor& dy, const Tensor& dbias) override {
    timed(OpClass::elementwise, [&] { ops_->bias_grad(dy, dbias); });
  }
  void add_positions(std::int64_t first_token, std::int64_t sequence, const Tensor& table, const Tensor& x) override {
    timed(OpClass::elementwise, [&] { ops_->add_positions(first_token, sequence, table, x); });
  }
  void positions_grad(std::int64_t first_token, std::int64_t sequence, const Tensor& dy, const Tensor& dtable) override {
    timed(OpClass::elementwise, [&] { ops_->positions_grad(first_token, sequence, dy, dtable); });
  }

  void attention(const AttentionShape& shape, const Tensor& qkv, const Tensor& out, const Tensor& log_sum_exp) override {
    timed(OpClass::attention, [&] { ops_->attention(shape, qkv, out, log_sum_exp); });
  }
  void attention_backward(const AttentionShape& shape, const Tensor& dout, const Tensor& qkv, const Tensor& out,
                          const Tensor& log_sum_exp, const Tensor& dqkv) override {
    timed(OpClass::attention, [&] { ops_->attention_backward(shape, dout, qkv, out, log_sum_exp, dqkv); });
  }

  void cross_entropy(const TensorParallel& tp, const Tensor& logits, const Tensor& targets, const VocabularyRows& vocabulary,
                     const Tensor& log_sum_exp, const Tensor& loss_sum) override {
    timed_both(
        tp, OpClass::elementwise, [&] { ops_->cross_entropy(tp, logits, targets, vocabulary, log_sum_exp, loss_sum); },
        [&] {
          ops_->cross_entropy({}, logits, targets, vocabulary, scratch(log_sum_exp.shape, log_sum_exp.dtype),
                              scratch(loss_sum.shape, loss_sum.dtype, 1));
        });
  }
  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const VocabularyRows& vocabulary,
                              const Tensor& log_sum_exp, float scale) override {
    timed(OpClass::elementwise, [&] { ops_->cross_entropy_backward(logits, targets, vocabulary, log_sum_exp, scale); });
  }

  void adamw(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v, const AdamW& settings) override {
    timed(OpClass::elementwise, [&] { ops_->adamw(weight, grad, m, v, settings); });
  }
  void copy(const Tensor& source, const Tensor& target) override {
    timed(OpClass::elementwise, [&] { ops_->copy(source, target); });
  }
  void round(const Tensor& source, const Tensor& target) override {
    timed(OpClass::elementwise, [&] { ops_->round(source, target); });
  }
  void adamw_rounded(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v, const AdamW& settings,
                     const Tensor& rounded) override {
    timed(OpClass::elementwise, [&] { ops_->adamw_rounded(weight, grad, m, v, settings, rounded); });
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

  // Where the second runs put their results: nobody reads them.
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
