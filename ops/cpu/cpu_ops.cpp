#include <cassert>

#include "core/buffer.hpp"
#include "core/error.hpp"
#include "ops/cpu/head_norms.hpp"
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/machine.hpp"
#include "ops/cpu/scratch.hpp"

namespace pipetrain {
namespace {

class CpuOps final : public Ops {
 public:
  explicit CpuOps(CpuStream& stream) : stream_(stream) {}

  Stream& stream() override { return stream_; }
  void set_workspace(Arena& workspace) override { workspace_ = &workspace; }
  void run(const Operation& operation) override {
    std::visit([this](const auto* args) { compute(*args); }, operation);
  }

 private:
  void compute(const GatherMatmulArgs& a) {
    const bool gathers = a.tp.size() > 1 && a.tp.sequence_parallel;
    if (gathers) a.tp.group->all_gather(stream_, a.shard, a.full);
    enqueue(cpu::matmul, a.kind, gathers ? a.full : a.shard, a.w, false, a.out);
    if (a.bias) add_bias(a.out, *a.bias);
  }
  void compute(const MatmulScatterArgs& a) {
    assert(a.factor == 1 || !a.residual);
    a.tp.size() == 1 ? multiply(a) : multiply_and_sum(a);
    if (a.factor != 1) scale({.x = a.out, .out = a.out, .factor = a.factor, .exact = true});
    if (a.bias) add_bias(a.out, *a.bias);
  }
  void multiply(const MatmulScatterArgs& a) {
    const bool accumulate = a.residual.has_value();
    if (accumulate && a.residual->data != a.out.data) copy(*a.residual, a.out);
    enqueue(cpu::matmul, a.kind, a.in, a.w, accumulate, a.out);
  }
  void multiply_and_sum(const MatmulScatterArgs& a) {
    const ArenaScope scope(*workspace_);
    const cpu::ScatterScratch scratch = cpu::scratch_of(*workspace_, a);
    enqueue(cpu::matmul, a.kind, a.in, a.w, false, scratch.product);
    sum_over_ranks(a.tp, scratch, a.residual, a.out);
  }
  // out [Tr, ...] = this rank's rows of the sum of all ranks' products, plus the residual.
  void sum_over_ranks(const TensorParallel& tp, const cpu::ScatterScratch& scratch, const std::optional<Tensor>& residual,
                      const Tensor& out) {
    if (tp.sequence_parallel) {
      tp.group->reduce_scatter(stream_, scratch.product, scratch.sum);
    } else {
      tp.group->all_reduce(stream_, scratch.product, Reduction::sum);
    }
    residual ? enqueue(cpu::add_rounded, scratch.sum, *residual, out) : round(scratch.sum, out);
  }
  void compute(const WeightGradArgs& a) { enqueue(cpu::weight_grad, a.dy, a.x, a.accumulate == Accumulate::yes, a.dw); }
  void compute(const BackwardScatterArgs& a) {
    weight_grad(a.weight_grad());
    matmul_scatter(a.matmul_scatter());
  }
  void compute(const QuantiseArgs&) { refuse_fp8(); }
  void compute(const Fp8MatmulArgs&) { refuse_fp8(); }
  void compute(const DequantiseArgs& a) { enqueue(cpu::dequantise, a); }
  void compute(const DrawNormalsArgs&) { refuse_quantising(); }
  void compute(const QuantiseNf4Args&) { refuse_quantising(); }
  void compute(const CodeNf4ScalesArgs&) { refuse_quantising(); }
  void compute(const GatherArgs& a) {
    if (a.tp.size() > 1 && a.tp.sequence_parallel) return a.tp.group->all_gather(stream_, a.shard, a.full);
    if (a.shard.data != a.full.data) copy(a.shard, a.full);
  }
  void compute(const ScatterSumArgs& a) {
    if (a.tp.size() > 1 && a.tp.sequence_parallel) return a.tp.group->reduce_scatter(stream_, a.full, a.out);
    if (a.full.data != a.out.data) copy(a.full, a.out);
    if (a.tp.size() > 1) a.tp.group->all_reduce(stream_, a.out, Reduction::sum);
  }
  // Every rank adds zeros to the slices that it does not hold.
  void compute(const SumCopiesArgs& a) {
    if (a.tp.size() == 1) return;
    const ArenaScope scope(*workspace_);
    const Tensor all = cpu::scratch_of(*workspace_, a);
    const Tensor own = all.row_range(a.slice, a.slice + 1).reshaped(a.values.shape);
    zero(all);
    copy(a.values, own);
    a.tp.group->all_reduce(stream_, all, Reduction::sum);
    copy(own, a.values);
  }

  void compute(const EmbeddingArgs& a) {
    const ArenaScope scope(*workspace_);
    Tensor rows = a.tp.size() == 1 ? a.out : cpu::scratch_of(*workspace_, a);
    rows.dtype = a.table.dtype;
    enqueue(cpu::embedding, a.ids, a.table, a.first_id, rows);
    if (a.tp.size() > 1) scatter_sum({.tp = a.tp, .full = rows, .out = a.out});
  }
  void compute(const EmbeddingGradArgs& a) { enqueue(cpu::embedding_grad, a.ids, a.dy, a.first_id, a.dtable); }

  void compute(const RmsNormArgs& a) { enqueue(cpu::rms_norm, a); }
  void compute(const RmsNormBackwardArgs& a) { enqueue_with_scratch(cpu::rms_norm_backward, a); }
  void compute(const RowDotsArgs& a) { enqueue(cpu::row_dots, a); }
  void compute(const SplitNormArgs& a) { enqueue(cpu::split_norm, a); }
  void compute(const SplitNormBackwardArgs& a) { enqueue_with_scratch(cpu::split_norm_backward, a); }
  void compute(const CopyArgs& a) { stream_.copy(a.target.data, a.source.data, a.source.bytes()); }
  void compute(const ZeroArgs& a) { stream_.zero(a.tensor); }
  void compute(const CopyColumnsArgs& a) { enqueue(cpu::copy_columns, a); }
  void compute(const JoinBlocksArgs& a) {
    zero(a.out);
    for (const auto& [values, row, column] : a.blocks)
      copy_columns({.source = values,
                    .target = a.out.row_range(row, row + values.rows()),
                    .target_begin = column,
                    .count = values.cols()});
  }
  void compute(const AddBlocksArgs& a) {
    for (const MatrixBlock& block : a.blocks) enqueue(cpu::add_block, a, block);
  }
  void compute(const OfSegments<RotaryArgs>& a) { enqueue(cpu::rotary, a.shape, a.args); }
  void compute(const OfSegments<HeadNormsArgs>& a) { cpu::head_norms(*this, *workspace_, a.shape, a.args); }
  void compute(const OfSegments<HeadNormsBackwardArgs>& a) { cpu::head_norms_backward(*this, *workspace_, a.shape, a.args); }
  void compute(const SwigluArgs& a) { enqueue(cpu::swiglu, a); }
  void compute(const SwigluBackwardArgs& a) { enqueue(cpu::swiglu_backward, a); }
  void compute(const LayerNormArgs& a) { enqueue(cpu::layer_norm, a); }
  void compute(const LayerNormBackwardArgs& a) {
    const ArenaScope scope(*workspace_);
    const cpu::LayerNormScratch scratch = cpu::scratch_of(*workspace_, a);
    if (a.residual_sums) enqueue(cpu::bias_grad, *a.residual, *a.residual_sums, scratch.residual_sums);
    enqueue(cpu::layer_norm_backward, a, scratch.partial);
  }
  void compute(const GeluArgs& a) { enqueue(cpu::gelu, a.x, a.bias, a.y); }
  void compute(const GeluBackwardArgs& a) { enqueue_with_scratch(cpu::gelu_backward, a); }
  void compute(const ScaleArgs& a) { enqueue(cpu::scale, a); }
  void compute(const SigmoidArgs& a) { enqueue(cpu::sigmoid, a); }
  void compute(const SigmoidBackwardArgs& a) { enqueue(cpu::sigmoid_backward, a); }
  void compute(const AddBiasArgs& a) { enqueue(cpu::add_bias, a.x, a.bias); }
  void compute(const BiasGradArgs& a) {
    const ArenaScope scope(*workspace_);
    enqueue(cpu::bias_grad, a.dy, a.dbias, cpu::scratch_of(*workspace_, a));
  }
  void compute(const AddPositionsArgs& a) { enqueue(cpu::add_positions, a); }
  void compute(const PositionsGradArgs& a) { enqueue(cpu::positions_grad, a); }
  void compute(const DropoutArgs& a) { enqueue(cpu::dropout, a); }

  void compute(const OfSegments<AttentionArgs>& a) { enqueue_attention(cpu::attention, a); }
  void compute(const OfSegments<AttentionBackwardArgs>& a) {
    enqueue_attention(cpu::attention_backward, a);
    if (!a.args.cos_sin) return;
    rotary(a.shape, {.qkv = a.args.dq, .cos_sin = *a.args.cos_sin, .documents = a.args.documents, .inverse = true});
  }
  void compute(const OfSegments<CachedAttentionArgs>& a) { enqueue_attention(cpu::cached_attention, a); }
  void compute(const OfSegments<MergeAttentionArgs>& a) { enqueue(cpu::merge_attention, a.shape, a.args); }
  void compute(const SinksArgs& a) { enqueue(cpu::add_sinks, a); }
  void compute(const SinksBackwardArgs& a) { enqueue(cpu::sinks_backward, a); }
  void compute(const OfSegments<LatentHeadsArgs>& a) { enqueue(cpu::latent_heads, a.shape, a.args); }
  void compute(const OfSegments<LatentHeadsBackwardArgs>& a) { enqueue(cpu::latent_heads_backward, a.shape, a.args); }
  void compute(const OfSegments<CachedLatentAttentionArgs>& a) { enqueue(cpu::cached_latent_attention, a.shape, a.args); }

  void compute(const CrossEntropyArgs& a) {
    const ArenaScope scope(*workspace_);
    const cpu::LossSums found = cpu::scratch_of(*workspace_, a);
    enqueue(cpu::row_max, a, found);
    if (a.tp.size() > 1) a.tp.group->all_reduce(stream_, found.maxima, Reduction::max);
    enqueue(cpu::row_sums, a, found);
    if (a.tp.size() > 1) a.tp.group->all_reduce(stream_, found.sums, Reduction::sum);
    stream_.enqueue([=] { cpu::token_losses(a, found); });
    if (a.gradient_scale) cross_entropy_backward(a.backward());
  }
  void compute(const CrossEntropyBackwardArgs& a) { enqueue(cpu::cross_entropy_backward, a); }
  void compute(const CountedRowsArgs& a) {
    stream_.enqueue([=] { cpu::counted_rows(a.logits, a.targets, a.rows); });
  }
  void compute(const ContextTargetsArgs& a) {
    stream_.enqueue([=] { cpu::context_targets(a); });
  }
  void compute(const SequenceSumsArgs& a) {
    stream_.enqueue([=] { cpu::sequence_sums(a); });
  }
  void compute(const PreferenceScalesArgs& a) {
    stream_.enqueue([=] { cpu::preference_scales(a); });
  }

  void compute(const RouteArgs& a) { enqueue(cpu::route, a); }
  void compute(const RouteBackwardArgs& a) { enqueue(cpu::route_backward, a); }
  void compute(const CountExpertsArgs& a) {
    stream_.enqueue([=] { cpu::count_experts(a); });
  }
  void compute(const GatherRowsArgs& a) { enqueue(cpu::gather_rows, a); }
  void compute(const SumRowsArgs& a) {
    if (a.tp.size() == 1) return enqueue(cpu::sum_rows, cpu::RowSums{a.rows, a.places, a.addend, a.residual, a.out});
    const ArenaScope scope(*workspace_);
    const cpu::ScatterScratch scratch = cpu::scratch_of(*workspace_, a);
    enqueue(cpu::sum_rows, cpu::RowSums{a.rows, a.places, a.addend, {}, scratch.product});
    sum_over_ranks(a.tp, scratch, a.residual, a.out);
  }
  void compute(const WeighRowsArgs& a) { enqueue(cpu::weigh_rows, a); }
  void compute(const WeighedSwigluBackwardArgs& a) {
    enqueue(cpu::weighed_swiglu_backward, a);
    if (a.addend.shape.rank() > 0) add(a.dweights, a.addend);
    if (a.tp.size() > 1) a.tp.group->all_reduce(stream_, a.dweights, Reduction::sum);
  }
  void compute(const ExpertBiasArgs& a) { enqueue(cpu::add_expert_bias, a); }
  void compute(const ExpertBiasBackwardArgs& a) { enqueue(cpu::expert_bias_backward, a); }
  void compute(const GroupedMatmulArgs& a) {
    enqueue(cpu::grouped_matmul, a);
    if (a.bias) compute(a.bias_args());
  }
  void compute(const GroupedFp8MatmulArgs&) { refuse_fp8(); }
  void compute(const GroupedWeightGradArgs& a) { enqueue(cpu::grouped_weight_grad, a); }
  void compute(const SendTokensArgs& a) {
    stream_.enqueue([=] { cpu::send_tokens(a); });
  }
  void compute(const SortReceivedArgs& a) {
    stream_.enqueue([=] { cpu::sort_received(a); });
  }
  void compute(const ExchangeRowsArgs& a) { a.group->all_to_all(stream_, a.exchange); }

  void compute(const UpdateArgs& a) { enqueue(cpu::update, a); }
  void compute(const EightBitUpdateArgs& a) { enqueue(cpu::eight_bit_update, a); }
  void compute(const TensorUpdateArgs& a) { enqueue(cpu::tensor_update, a); }
  void compute(const SettleMomentsArgs& a) { enqueue(cpu::settle_moments, a); }
  void compute(const RoundArgs& a) { enqueue(cpu::round, a.source, a.target); }
  void compute(const SquareSumArgs& a) {
    const ArenaScope scope(*workspace_);
    enqueue(cpu::square_sum, a.tensor, a.sum, cpu::scratch_of(*workspace_, a));
  }
  void compute(const SquareSumEachArgs& a) {
    for (const SquareSumArgs& one : a.sums) compute(one);
  }
  void compute(const SquareSumsArgs& a) { enqueue(cpu::square_sums, a.tensor, a.sums); }
  void compute(const AddArgs& a) { enqueue(cpu::add, a.target, a.source, a.target); }

  [[noreturn]] static void refuse_quantising() {
    throw Error(ErrorKind::unavailable, "this device quantises no weights; the host does");
  }
  [[noreturn]] static void refuse_fp8() {
    throw Error(ErrorKind::unavailable, "this device computes no products in 8 bits; use precision fp32");
  }

  // Enqueues kernel(stream, args...).
  template <class Kernel, class... Args>
  void enqueue(Kernel kernel, const Args&... args) {
    stream_.enqueue([&stream = stream_, kernel, args...] { kernel(stream, args...); });
  }
  template <class Kernel, class Args>
  void enqueue_attention(Kernel kernel, const OfSegments<Args>& a) {
    enqueue(kernel, a.shape, a.args);
  }
  template <class Kernel, class Args>
  void enqueue_with_scratch(Kernel kernel, const Args& args) {
    const ArenaScope scope(*workspace_);
    enqueue(kernel, args, cpu::scratch_of(*workspace_, args));
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
