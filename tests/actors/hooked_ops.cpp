#include "actors/hooked_ops.hpp"

#include <utility>

namespace pipetrain::test {
namespace {

class HookedOps final : public Ops {
 public:
  HookedOps(std::unique_ptr<Ops> ops, std::function<void()> hook) : ops_(std::move(ops)), hook_(std::move(hook)) {}

  Stream& stream() override { return ops_->stream(); }
  void set_workspace(Arena& workspace) override { ops_->set_workspace(workspace); }

  void gather_matmul(const TensorParallel& tp, MatmulKind kind, const GatherMatmulArgs& args) override {
    next().gather_matmul(tp, kind, args);
  }
  void matmul_scatter(const TensorParallel& tp, MatmulKind kind, const MatmulScatterArgs& args) override {
    next().matmul_scatter(tp, kind, args);
  }
  void weight_grad(const WeightGradArgs& args) override { next().weight_grad(args); }
  void backward_scatter(const TensorParallel& tp, const BackwardScatterArgs& args) override {
    next().backward_scatter(tp, args);
  }
  void quantise(const QuantiseArgs& args) override { next().quantise(args); }
  void fp8_matmul(const Fp8MatmulArgs& args) override { next().fp8_matmul(args); }
  void fp8_matmul_scatter(const TensorParallel& tp, const Fp8MatmulArgs& args) override { next().fp8_matmul_scatter(tp, args); }
  void gather(const TensorParallel& tp, const Tensor& shard, const Tensor& full) override { next().gather(tp, shard, full); }
  void scatter_sum(const TensorParallel& tp, const Tensor& full, const Tensor& out) override {
    next().scatter_sum(tp, full, out);
  }
  void embedding(const TensorParallel& tp, const Tensor& ids, const Tensor& table, std::int64_t first_id,
                 const Tensor& out) override {
    next().embedding(tp, ids, table, first_id, out);
  }
  void embedding_grad(const Tensor& ids, const Tensor& dy, std::int64_t first_id, const Tensor& dtable) override {
    next().embedding_grad(ids, dy, first_id, dtable);
  }
  void rms_norm(const RmsNormArgs& args) override { next().rms_norm(args); }
  void rms_norm_backward(const RmsNormBackwardArgs& args) override { next().rms_norm_backward(args); }
  void copy(const Tensor& source, const Tensor& target) override { next().copy(source, target); }
  void copy_columns(const CopyColumnsArgs& args) override { next().copy_columns(args); }
  void rotary(const SegmentShape& shape, const RotaryArgs& args) override { next().rotary(shape, args); }
  void swiglu(const SwigluArgs& args) override { next().swiglu(args); }
  void swiglu_backward(const SwigluBackwardArgs& args) override { next().swiglu_backward(args); }
  void layer_norm(const LayerNormArgs& args) override { next().layer_norm(args); }
  void layer_norm_backward(const LayerNormBackwardArgs& args) override { next().layer_norm_backward(args); }
  void gelu(const Tensor& x, const Tensor& bias, const Tensor& y) override { next().gelu(x, bias, y); }
  void gelu_backward(const GeluBackwardArgs& args) override { next().gelu_backward(args); }
  void add_bias(const Tensor& x, const Tensor& bias) override { next().add_bias(x, bias); }
  void bias_grad(const Tensor& dy, const Tensor& dbias) override { next().bias_grad(dy, dbias); }
  void add_positions(const AddPositionsArgs& args) override { next().add_positions(args); }
  void positions_grad(const PositionsGradArgs& args) override { next().positions_grad(args); }
  void dropout(const DropoutArgs& args) override { next().dropout(args); }
  void attention(const SegmentShape& shape, const AttentionArgs& args) override { next().attention(shape, args); }
  void attention_backward(const SegmentShape& shape, const AttentionBackwardArgs& args) override {
    next().attention_backward(shape, args);
  }
  void cached_attention(const SegmentShape& shape, const CachedAttentionArgs& args) override {
    next().cached_attention(shape, args);
  }
  void merge_attention(const SegmentShape& shape, const MergeAttentionArgs& args) override {
    next().merge_attention(shape, args);
  }
  void cross_entropy(const TensorParallel& tp, const CrossEntropyArgs& args) override { next().cross_entropy(tp, args); }
  void cross_entropy_backward(const CrossEntropyBackwardArgs& args) override { next().cross_entropy_backward(args); }
  void cross_entropy_with_gradient(const TensorParallel& tp, const CrossEntropyArgs& args, float scale) override {
    next().cross_entropy_with_gradient(tp, args, scale);
  }
  void counted_rows(const Tensor& logits, const Tensor& targets, const Tensor& rows) override {
    next().counted_rows(logits, targets, rows);
  }
  void adamw(const AdamWArgs& args, const AdamW& settings) override { next().adamw(args, settings); }
  void round(const Tensor& source, const Tensor& target) override { next().round(source, target); }
  void adamw_rounded(const AdamWArgs& args, const AdamW& settings, const Tensor& rounded) override {
    next().adamw_rounded(args, settings, rounded);
  }
  void adamw_preview(const AdamWArgs& args, const AdamW& settings, const Tensor& result) override {
    next().adamw_preview(args, settings, result);
  }
  void square_sum(const Tensor& tensor, const Tensor& sum) override { next().square_sum(tensor, sum); }
  void square_sums(const Tensor& tensor, const Tensor& sums) override { next().square_sums(tensor, sums); }
  void add(const Tensor& target, const Tensor& source) override { next().add(target, source); }

 private:
  std::unique_ptr<Ops> ops_;
  std::function<void()> hook_;

  Ops& next() {
    hook_();
    return *ops_;
  }
};

}  // namespace

std::unique_ptr<Ops> make_hooked_ops(std::unique_ptr<Ops> ops, std::function<void()> hook) {
  return std::make_unique<HookedOps>(std::move(ops), std::move(hook));
}

}  // namespace pipetrain::test
