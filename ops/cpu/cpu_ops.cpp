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

  void gather_matmul(const TensorParallel& tp, MatmulKind kind, const GatherMatmulArgs& args) override {
    const bool gathers = tp.size() > 1 && tp.sequence_parallel;
    if (gathers) tp.group->all_gather(stream_, args.shard, args.full);
    enqueue([=](CpuStream& s) { cpu::matmul(s, kind, gathers ? args.full : args.shard, args.w, false, args.out); });
    if (args.bias) add_bias(args.out, *args.bias);
  }

  void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const MatmulScatterArgs& args) override {
    multiply_and_scatter(tp, kind, args);
    if (args.bias) add_bias(args.out, *args.bias);
  }

  void multiply_and_scatter(const TensorParallel& tp, MatmulKind kind, const MatmulScatterArgs& args) {
    const Tensor& out = args.out;
    if (tp.size() == 1) {
      const bool accumulate = args.residual.has_value();
      if (accumulate && args.residual->data != out.data) stream_.copy(out.data, args.residual->data, out.bytes());
      return enqueue([=](CpuStream& s) { cpu::matmul(s, kind, args.in, args.w, accumulate, args.out); });
    }
    const ArenaScope scope(*workspace_);
    const cpu::ScatterScratch scratch(*workspace_, tp, args.in, out);
    enqueue([=](CpuStream& s) { cpu::matmul(s, kind, args.in, args.w, false, scratch.product); });
    sum_ranks(tp, scratch.product, scratch.sum);
    if (args.residual) {
      enqueue([=](CpuStream& s) { cpu::add_rounded(s, scratch.sum, *args.residual, args.out); });
    } else {
      round(scratch.sum, out);
    }
  }

  void weight_grad(const WeightGradArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::weight_grad(s, args.dy, args.x, args.accumulate == Accumulate::yes, args.dw); });
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
    Tensor rows = tp.size() == 1 ? out : scratch.rows;
    rows.dtype = table.dtype;
    enqueue([=](CpuStream& s) { cpu::embedding(s, ids, table, first_id, rows); });
    if (tp.size() > 1) scatter_sum(tp, rows, out);
  }

  void embedding_grad(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) override {
    enqueue([=](CpuStream& s) { cpu::embedding_grad(s, ids, dy, first_id, dtable); });
  }

  void rms_norm(const RmsNormArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::rms_norm(s, args); });
  }

  void rms_norm_backward(const RmsNormBackwardArgs& args) override {
    const ArenaScope scope(*workspace_);
    const cpu::ColumnScratch scratch(*workspace_, args.x);
    enqueue([=](CpuStream& s) { cpu::rms_norm_backward(s, args, scratch.partial); });
  }

  void rotary(const SegmentShape& shape, const RotaryArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::rotary(s, shape, args); });
  }

  void swiglu(const SwigluArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::swiglu(s, args); });
  }

  void swiglu_backward(const SwigluBackwardArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::swiglu_backward(s, args); });
  }

  void layer_norm(const LayerNormArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::layer_norm(s, args); });
  }

  void layer_norm_backward(const LayerNormBackwardArgs& args) override {
    const ArenaScope scope(*workspace_);
    const cpu::LayerNormScratch scratch(*workspace_, args.x);
    if (args.residual_sums) bias_grad(*args.residual, *args.residual_sums);
    enqueue([=](CpuStream& s) { cpu::layer_norm_backward(s, args, scratch.partial); });
  }

  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override {
    enqueue([=](CpuStream& s) { cpu::gelu(s, x, bias, y); });
  }

  void gelu_backward(const GeluBackwardArgs& args) override {
    const ArenaScope scope(*workspace_);
    const cpu::ColumnScratch scratch(*workspace_, args.x);
    enqueue([=](CpuStream& s) { cpu::gelu_backward(s, args, scratch.partial); });
  }

  void copy_columns(const CopyColumnsArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::copy_columns(s, args); });
  }

  void add_bias(const Tensor& x, const Tensor& bias) override {
    enqueue([=](CpuStream& s) { cpu::add_bias(s, x, bias); });
  }

  void bias_grad(const Tensor& dy, const Tensor& dbias) override {
    const ArenaScope scope(*workspace_);
    const cpu::ColumnScratch scratch(*workspace_, dy);
    enqueue([=](CpuStream& s) { cpu::bias_grad(s, dy, dbias, scratch.partial); });
  }

  void add_positions(const AddPositionsArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::add_positions(s, args); });
  }

  void positions_grad(const PositionsGradArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::positions_grad(s, args); });
  }

  void dropout(const DropoutArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::dropout(s, args); });
  }

  void attention(const SegmentShape& shape, const AttentionArgs& args) override {
    enqueue_attention(shape, [=](CpuStream& s) { cpu::attention(s, shape, args); });
  }

  void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) override {
    enqueue_attention(shape, [=](CpuStream& s) { cpu::attention_backward(s, shape, args); });
    if (args.cos_sin) rotary(shape, {.qkv = args.dq, .cos_sin = *args.cos_sin, .documents = args.documents, .inverse = true});
  }

  void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) override {
    enqueue_attention(shape, [=](CpuStream& s) { cpu::cached_attention(s, shape, args); });
  }

  void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::merge_attention(s, shape, args); });
  }

  void cross_entropy(const TensorParallel& tp, const CrossEntropyArgs& args) override {
    const ArenaScope scope(*workspace_);
    const cpu::LossScratch scratch(*workspace_, args.targets);
    const cpu::LossSums found{.maxima = scratch.maxima, .sums = scratch.sums};
    enqueue([=](CpuStream& s) { cpu::row_max(s, args, found); });
    if (tp.size() > 1) tp.group->all_reduce(stream_, found.maxima, Reduction::max);
    enqueue([=](CpuStream& s) { cpu::row_sums(s, args, found); });
    if (tp.size() > 1) tp.group->all_reduce(stream_, found.sums, Reduction::sum);
    enqueue([=](CpuStream&) { cpu::token_losses(args, found); });
  }

  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) override {
    enqueue([=](CpuStream& s) { cpu::cross_entropy_backward(s, args); });
  }

  void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) override {
    enqueue([=](CpuStream&) { cpu::counted_rows(logits, targets, rows); });
  }

  void adamw_preview(const AdamWArgs& args, const AdamW& settings, const Tensor& result) override {
    enqueue([=](CpuStream& s) { cpu::adamw_preview(s, args, settings, result); });
  }
  void adamw(const AdamWArgs& args, const AdamW& settings) override {
    enqueue([=](CpuStream& s) { cpu::adamw(s, args, settings); });
  }

  void round(const Tensor& source, const Tensor& target) override {
    enqueue([=](CpuStream& s) { cpu::round(s, source, target); });
  }

  void square_sum(const Tensor& tensor, const Tensor& sum) override {
    const ArenaScope scope(*workspace_);
    const cpu::SquareSumScratch scratch(*workspace_, tensor);
    enqueue([=](CpuStream& s) { cpu::square_sum(s, tensor, sum, scratch.partial); });
  }

  void square_sums(const Tensor& tensor, const Tensor& sums) override {
    enqueue([=](CpuStream& s) { cpu::square_sums(s, tensor, sums); });
  }

  void add(const Tensor& target, const Tensor& source) override {
    enqueue([=](CpuStream& s) { cpu::add(s, target, source, target); });
  }

 private:
  template <class Kernel>
  void enqueue(Kernel kernel) {
    stream_.enqueue([&stream = stream_, kernel = std::move(kernel)] { kernel(stream); });
  }

  template <class Kernel>
  void enqueue_attention(const SegmentShape& shape, Kernel kernel) {
    refuse_unbuilt_attention(shape);
    enqueue(std::move(kernel));
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
