#include "core/buffer.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/machine.hpp"
#include "ops/cpu/scratch.hpp"

namespace pipetrain {
namespace {

class CpuOps : public Ops {
 public:
  explicit CpuOps(CpuStream& stream) : stream_(stream) {}

  Stream& stream() override { return stream_; }
  void set_workspace(Arena& workspace) override { workspace_ = &workspace; }

  void gather_matmul(const TensorParallel& tp, MatmulKind kind, const Tensor& shard, const Tensor& w, const Tensor& full,
                     const Tensor& out) override {
    const bool gathers = tp.size() > 1 && tp.sequence_parallel;
    if (gathers) tp.group->all_gather(stream_, shard, full);
    enqueue([=, x = gathers ? full : shard](CpuStream& s) { cpu::matmul(s, kind, x, w, false, out); });
  }

  void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const Tensor& in, const Tensor& w, const Tensor* residual,
                      const Tensor& out) override {
    const Tensor add = residual == nullptr ? Tensor{} : *residual;
    if (tp.size() == 1) {
      const bool accumulate = residual != nullptr;
      if (accumulate && add.data != out.data) stream_.copy(out.data, add.data, out.bytes());
      return enqueue([=](CpuStream& s) { cpu::matmul(s, kind, in, w, accumulate, out); });
    }
    const ArenaScope scope(*workspace_);
    const cpu::ScatterScratch scratch(*workspace_, tp, in, out);
    enqueue([=](CpuStream& s) { cpu::matmul(s, kind, in, w, false, scratch.product); });
    sum_ranks(tp, scratch.product, scratch.sum);
    if (residual != nullptr) {
      enqueue([=](CpuStream& s) { cpu::add(s, add, scratch.sum, out); });
    } else {
      stream_.copy(out.data, scratch.sum.data, out.bytes());
    }
  }

  void weight_grad(const Tensor& dy, const Tensor& x, const Tensor& dw, Accumulate accumulate) override {
    enqueue([=](CpuStream& s) { cpu::weight_grad(s, dy, x, accumulate == Accumulate::yes, dw); });
  }

  void gather(const TensorParallel& tp, const Tensor& shard, const Tensor& full) override {
    if (tp.size() > 1 && tp.sequence_parallel) {
      tp.group->all_gather(stream_, shard, full);
    } else if (shard.data != full.data) {
      stream_.copy(full.data, shard.data, full.bytes());
    }
  }

  void scatter_sum(const TensorParallel& tp, const Tensor& full, const Tensor& out) override {
    if (tp.size() > 1 && tp.sequence_parallel) {
      tp.group->reduce_scatter(stream_, full, out);
      return;
    }
    if (full.data != out.data) stream_.copy(out.data, full.data, out.bytes());
    if (tp.size() > 1) tp.group->all_reduce(stream_, out, Reduction::sum);
  }

  void embedding(const TensorParallel& tp, const Tensor& ids, const Tensor& table, std::int64_t first_id,
                 const Tensor& out) override {
    const ArenaScope scope(*workspace_);
    const cpu::EmbeddingScratch scratch(*workspace_, tp, ids, table);
    const Tensor rows = tp.size() == 1 ? out : scratch.rows;
    enqueue([=](CpuStream& s) { cpu::embedding(s, ids, table, first_id, rows); });
    if (tp.size() > 1) scatter_sum(tp, rows, out);
  }

  void embedding_grad(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) override {
    enqueue([=](CpuStream& s) { cpu::embedding_grad(s, ids, dy, first_id, dtable); });
  }

  void rms_norm(const Tensor& x, const Tensor& weight, float eps, const Tensor& y, const Tensor& inv_rms) override {
    enqueue([=](CpuStream& s) { cpu::rms_norm(s, x, weight, eps, y, inv_rms); });
  }

  void rms_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& inv_rms, const Tensor* residual,
                         const Tensor& dx, const Tensor& dweight) override {
    const ArenaScope scope(*workspace_);
    const cpu::ColumnScratch scratch(*workspace_, x);
    const Tensor add = residual == nullptr ? Tensor{} : *residual;
    enqueue([=](CpuStream& s) { cpu::rms_norm_backward(s, dy, x, weight, inv_rms, add, dx, dweight, scratch.partial); });
  }

  void rotary(const AttentionShape& shape, const Tensor& qkv, const Tensor& cos_sin, bool inverse) override {
    enqueue([=](CpuStream& s) { cpu::rotary(s, shape, qkv, cos_sin, inverse); });
  }

  void swiglu(const Tensor& gate_up, const Tensor& y) override {
    enqueue([=](CpuStream& s) { cpu::swiglu(s, gate_up, y); });
  }

  void swiglu_backward(const Tensor& dy, const Tensor& gate_up, const Tensor& dgate_up) override {
    enqueue([=](CpuStream& s) { cpu::swiglu_backward(s, dy, gate_up, dgate_up); });
  }

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, float eps, const Tensor& y, const Tensor& mean,
                  const Tensor& inv_std) override {
    enqueue([=](CpuStream& s) { cpu::layer_norm(s, x, weight, bias, eps, y, mean, inv_std); });
  }

  void layer_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& inv_std,
                           const Tensor* residual, const Tensor& dx, const Tensor& dweight, const Tensor& dbias) override {
    const ArenaScope scope(*workspace_);
    const cpu::LayerNormScratch scratch(*workspace_, x);
    const Tensor add = residual == nullptr ? Tensor{} : *residual;
    enqueue([=](CpuStream& s) {
      cpu::layer_norm_backward(s, dy, x, weight, mean, inv_std, add, dx, dweight, dbias, scratch.partial);
    });
  }

  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override {
    enqueue([=](CpuStream& s) { cpu::gelu(s, x, bias, y); });
  }

  void gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& bias, const Tensor& dx, const Tensor& dbias) override {
    const ArenaScope scope(*workspace_);
    const cpu::ColumnScratch scratch(*workspace_, x);
    enqueue([=](CpuStream& s) { cpu::gelu_backward(s, dy, x, bias, dx, dbias, scratch.partial); });
  }

  void add_bias(const Tensor& x, const Tensor& bias) override {
    enqueue([=](CpuStream& s) { cpu::add_bias(s, x, bias); });
  }

  void bias_grad(const Tensor& dy, const Tensor& dbias) override {
    const ArenaScope scope(*workspace_);
    const cpu::ColumnScratch scratch(*workspace_, dy);
    enqueue([=](CpuStream& s) { cpu::bias_grad(s, dy, dbias, scratch.partial); });
  }

  void add_positions(std::int64_t first_token, std::int64_t sequence, const Tensor& table, const Tensor& x) override {
    enqueue([=](CpuStream& s) { cpu::add_positions(s, first_token, sequence, table, x); });
  }

  void positions_grad(std::int64_t first_token, std::int64_t sequence, const Tensor& dy, const Tensor& dtable) override {
    enqueue([=](CpuStream& s) { cpu::positions_grad(s, first_token, sequence, dy, dtable); });
  }

  void attention(const AttentionShape& shape, const Tensor& qkv, const Tensor& out, const Tensor& log_sum_exp) override {
    enqueue([=](CpuStream& s) { cpu::attention(s, shape, qkv, out, log_sum_exp); });
  }

  void attention_backward(const AttentionShape& shape, const Tensor& dout, const Tensor& qkv, const Tensor& out,
                          const Tensor& log_sum_exp, const Tensor& dqkv) override {
    enqueue([=](CpuStream& s) { cpu::attention_backward(s, shape, dout, qkv, out, log_sum_exp, dqkv); });
  }

  void cross_entropy(const TensorParallel& tp, const Tensor& logits, const Tensor& targets, const VocabularyRows& vocabulary,
                     const Tensor& log_sum_exp, const Tensor& loss_sum) override {
    const ArenaScope scope(*workspace_);
    const cpu::LossScratch scratch(*workspace_, targets);
    enqueue([=](CpuStream& s) { cpu::row_max(s, logits, vocabulary.count, scratch.maxima); });
    if (tp.size() > 1) tp.group->all_reduce(stream_, scratch.maxima, Reduction::max);
    enqueue([=](CpuStream& s) { cpu::row_sums(s, logits, targets, vocabulary, scratch.maxima, scratch.sums); });
    if (tp.size() > 1) tp.group->all_reduce(stream_, scratch.sums, Reduction::sum);
    enqueue([=](CpuStream&) { cpu::token_losses(targets, scratch.maxima, scratch.sums, log_sum_exp, loss_sum); });
  }

  void cross_entropy_backward(const Tensor& logits, const Tensor& targets, const VocabularyRows& vocabulary,
                              const Tensor& log_sum_exp, float scale) override {
    enqueue([=](CpuStream& s) { cpu::cross_entropy_backward(s, logits, targets, vocabulary, log_sum_exp, scale); });
  }

  void adamw(const Tensor& weight, const Tensor& grad, const Tensor& m, const Tensor& v, const AdamW& settings) override {
    enqueue([=](CpuStream& s) { cpu::adamw(s, weight, grad, m, v, settings); });
  }

  void square_sum(const Tensor& tensor, const Tensor& sum) override {
    const ArenaScope scope(*workspace_);
    const cpu::SquareSumScratch scratch(*workspace_, tensor);
    enqueue([=](CpuStream& s) { cpu::square_sum(s, tensor, sum, scratch.partial); });
  }

  void add(const Tensor& target, const Tensor& source) override {
    enqueue([=](CpuStream& s) { cpu::add(s, target, source, target); });
  }

 private:
  template <class Kernel>
  void enqueue(Kernel kernel) {
    stream_.enqueue([&stream = stream_, kernel = std::move(kernel)] { kernel(stream); });
  }

  void sum_ranks(const TensorParallel& tp, const Tensor& product, const Tensor& sum) {
    if (tp.sequence_parallel) {
      tp.group->reduce_scatter(stream_, product, sum);
    } else {
      tp.group->all_reduce(stream_, product, Reduction::sum);
    }
  }

  CpuStream& stream_;
  Arena* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(Stream& stream) {
  cpu::check_machine();
  return std::make_unique<CpuOps>(cpu_stream(stream));
}

}  // namespace pipetrain
