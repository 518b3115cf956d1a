#include "core/error.hpp"
#include "ops/cpu/scratch.hpp"

namespace pipetrain {
namespace {

// Allocates the workspace that the CPU's operations allocate, and does nothing else.
class MeasuringOps : public Ops {
 public:
  Stream& stream() override { throw Error(ErrorKind::internal, "measuring ops have no stream"); }
  void set_workspace(Arena& workspace) override { workspace_ = &workspace; }

  void matmul_scatter(const TensorParallel& tp, MatmulKind, const MatmulScatterArgs& args) override {
    measure<cpu::ScatterScratch>(tp, args.in, args.out);
  }
  void embedding(const TensorParallel& tp, const Tensor& ids, const Tensor& table, std::int64_t, const Tensor&) override {
    measure<cpu::EmbeddingScratch>(tp, ids, table);
  }
  void rms_norm_backward(const RmsNormBackwardArgs& args) override { measure<cpu::ColumnScratch>(args.x); }
  void gelu_backward(const GeluBackwardArgs& args) override { measure<cpu::ColumnScratch>(args.x); }
  void bias_grad(const Tensor& dy, const Tensor&) override { measure<cpu::ColumnScratch>(dy); }
  void layer_norm_backward(const LayerNormBackwardArgs& args) override {
    const ArenaScope scope(*workspace_);
    const cpu::LayerNormScratch scratch(*workspace_, args.x);
    if (args.residual_sums) bias_grad(*args.residual, *args.residual_sums);
  }
  void cross_entropy(const TensorParallel&, const CrossEntropyArgs& args) override { measure<cpu::LossScratch>(args.targets); }
  void square_sums(const Tensor&, const Tensor&) override {}
  void square_sum(const Tensor& tensor, const Tensor&) override { measure<cpu::SquareSumScratch>(tensor); }

  void gather_matmul(const TensorParallel&, MatmulKind, const GatherMatmulArgs&) override {}
  void weight_grad(const WeightGradArgs&) override {}
  void quantise(const QuantiseArgs&) override {}
  void fp8_matmul(const Fp8MatmulArgs&) override {}
  void fp8_matmul_scatter(const TensorParallel&, const Fp8MatmulArgs&) override {}
  void gather(const TensorParallel&, const Tensor&, const Tensor&) override {}
  void scatter_sum(const TensorParallel&, const Tensor&, const Tensor&) override {}
  void embedding_grad(const Tensor&, const Tensor&, std::int64_t, const Tensor&) override {}
  void rms_norm(const RmsNormArgs&) override {}
  void rotary(const SegmentShape&, const RotaryArgs&) override {}
  void swiglu(const SwigluArgs&) override {}
  void swiglu_backward(const SwigluBackwardArgs&) override {}
  void layer_norm(const LayerNormArgs&) override {}
  void gelu(const Tensor&, const Tensor&, const Tensor&) override {}
  void add_bias(const Tensor&, const Tensor&) override {}
  void add_positions(const AddPositionsArgs&) override {}
  void positions_grad(const PositionsGradArgs&) override {}
  void dropout(const DropoutArgs&) override {}
  void attention(const SegmentShape&, const AttentionArgs&) override {}
  void attention_backward(const SegmentShape&, const AttentionBackwardArgs&) override {}
  void cached_attention(const SegmentShape&, const CachedAttentionArgs&) override {}
  void merge_attention(const SegmentShape&, const MergeAttentionArgs&) override {}
  void cross_entropy_backward(const CrossEntropyBackwardArgs&) override {}
  void counted_rows(const Tensor&, const Tensor&, const Tensor&) override {}
  void adamw(const AdamWArgs&, const AdamW&) override {}
  void adamw_preview(const AdamWArgs&, const AdamW&, const Tensor&) override {}
  void add(const Tensor&, const Tensor&) override {}
  void copy(const Tensor&, const Tensor&) override {}
  void zero(const Tensor&) override {}
  void copy_columns(const CopyColumnsArgs&) override {}
  void round(const Tensor&, const Tensor&) override {}

 private:
  template <class Scratch, class... Arguments>
  void measure(const Arguments&... arguments) {
    const ArenaScope scope(*workspace_);
    const Scratch scratch(*workspace_, arguments...);
  }

  Arena* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<Ops> make_measuring_ops() { return std::make_unique<MeasuringOps>(); }

}  // namespace pipetrain
