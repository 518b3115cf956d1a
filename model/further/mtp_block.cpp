#include "model/further/mtp_block.hpp"

#include <cassert>

namespace pipetrain {

struct MtpBlock::MtpSaved final : BlockCompute::Saved {
  Tensor input;         // [Tr, H]
  Tensor ids;           // [T] i32, of the next tokens
  Tensor final_hidden;  // [Tr, H]
  Tensor embeddings;    // [Tr, H]
  Tensor joined;        // [Tr, 2H]: the normed embeddings, then the normed final_hidden
  Norm::Statistics final_statistics;
  Tensor embedding_inv_rms, hidden_inv_rms;  // [Tr] f32

  void relocate(const Relocation& moved) override {
    final_statistics.relocate(moved);
    for (Tensor* const view : {&input, &ids, &final_hidden, &embeddings, &joined, &embedding_inv_rms, &hidden_inv_rms})
      moved.move(*view);
  }
};

MtpBlock::MtpBlock(const ModelConfig& config, const TensorParallel& tp)
    : vocabulary_(own_rows(config.vocabulary, tp)),
      eps_(static_cast<float>(config.norm_eps)),
      final_norm_(config),
      embedding_{{}, 0},
      hidden_{{}, config.hidden} {
  assert(config.norm == NormKind::rms && config.norm_offset == 0 && config.embedding_scale == 1);
  const std::int64_t row = config.untrained_row.value_or(-1) - vocabulary_.first;
  if (config.untrained_row && row >= 0 && row < vocabulary_.count) untrained_row_ = row;
}

std::unique_ptr<BlockCompute::Saved> MtpBlock::make_saved() const { return std::make_unique<MtpSaved>(); }

void MtpBlock::bind(const BoundTensors& tensors) {
  final_norm_.bind(tensors);
  table_ = tensors.at(TensorRole::next_token_table);
  table_.weight = table_.weight.row_range(0, vocabulary_.count);
  if (table_.is_trained()) table_.grad = table_.grad.row_range(0, vocabulary_.count);
  embedding_.norm = tensors.at(TensorRole::next_token_norm_weight);
  hidden_.norm = tensors.at(TensorRole::hidden_norm_weight);
  join_ = tensors.at(TensorRole::join_weight);
}

void MtpBlock::norm_half(const BlockContext& context, const Half& half, const Tensor& x, const Tensor& inv_rms,
                         const Tensor& joined) const {
  const ArenaScope scope(context.workspace);
  const Tensor normed = context.workspace.allocate(x.shape, context.dtype);
  context.ops.rms_norm({.x = x, .weight = half.norm.weight, .eps = eps_, .y = normed, .inv_rms = inv_rms});
  context.ops.copy_columns({.source = normed, .target = joined, .target_begin = half.first, .count = x.cols()});
}

void MtpBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  auto& saved = static_cast<MtpSaved&>(saved_base);
  const std::int64_t rows = context.shard_rows(), hidden = final_norm_.hidden(), tokens = context.tokens();
  saved.input = args.input;
  saved.ids = args.targets.row_range(tokens, 2 * tokens);
  saved.final_hidden = args.final_hidden;
  saved.final_statistics = final_norm_.allocate_statistics(rows, memory);
  saved.embeddings = memory.allocate({rows, hidden}, context.dtype);
  saved.embedding_inv_rms = memory.allocate({rows}, DType::f32);
  saved.hidden_inv_rms = memory.allocate({rows}, DType::f32);
  saved.joined = memory.allocate({rows, 2 * hidden}, context.dtype);
  final_norm_.forward(context.ops, {.x = args.input, .y = args.final_hidden, .statistics = saved.final_statistics});
  context.ops.embedding(
      {.tp = context.tp, .ids = saved.ids, .table = table_.weight, .first_id = vocabulary_.first, .out = saved.embeddings});
  norm_half(context, embedding_, saved.embeddings, saved.embedding_inv_rms, saved.joined);
  norm_half(context, hidden_, saved.final_hidden, saved.hidden_inv_rms, saved.joined);
  multiply_alone(context.ops, {MatmulKind::forward, saved.joined, join_.weight, args.output});
}

void MtpBlock::half_backward(const BlockContext& context, const Half& half, const HalfGradient& args) const {
  const ArenaScope scope(context.workspace);
  const Tensor normed_grad = context.workspace.allocate(args.x.shape, context.dtype);
  context.ops.copy_columns(
      {.source = args.joined_grad, .source_begin = half.first, .target = normed_grad, .count = args.x.cols()});
  context.ops.rms_norm_backward({.dy = normed_grad,
                                 .x = args.x,
                                 .weight = half.norm.weight,
                                 .inv_rms = args.inv_rms,
                                 .residual = args.residual,
                                 .dx = args.dx,
                                 .dweight = sums_of(context, half.norm)});
}

// The table's gradient is added at once, in I too, as the embedding's is; this one has memory of its own.
void MtpBlock::table_backward(const BlockContext& context, const Tensor& embedding_grad, const Tensor& ids) const {
  if (!table_.is_trained()) return;
  const ArenaScope scope(context.workspace);
  Tensor gathered = embedding_grad;
  if (context.gathers()) {
    gathered = context.workspace.allocate({context.tokens(), final_norm_.hidden()}, context.dtype);
    context.ops.gather({.tp = context.tp, .shard = embedding_grad, .full = gathered});
  }
  context.ops.embedding_grad({.ids = ids, .dy = gathered, .first_id = vocabulary_.first, .dtable = table_.grad});
  if (untrained_row_) context.ops.zero(table_.grad.row_range(*untrained_row_, *untrained_row_ + 1));
}

void MtpBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                        Saved& saved_base) const {
  const auto& saved = static_cast<const MtpSaved&>(saved_base);
  const ArenaScope scope(context.workspace);
  // Every rank has the whole matrix: under sequence parallelism each adds the gradient of its own tokens.
  gradients.unannounced().add({.dy = args.output_grad, .x = saved.joined, .dw = join_.grad});
  const Tensor joined_grad = context.workspace.allocate(saved.joined.shape, context.dtype);
  multiply_alone(context.ops, {MatmulKind::input_grad, args.output_grad, join_.weight, joined_grad});
  const Tensor half_grad = context.workspace.allocate(saved.embeddings.shape, context.dtype);
  half_backward(context, embedding_,
                {.joined_grad = joined_grad, .x = saved.embeddings, .inv_rms = saved.embedding_inv_rms, .dx = half_grad});
  table_backward(context, half_grad, saved.ids);
  half_backward(context, hidden_,
                {.joined_grad = joined_grad,
                 .x = saved.final_hidden,
                 .inv_rms = saved.hidden_inv_rms,
                 .residual = args.final_hidden_grad,
                 .dx = half_grad});
  final_norm_.backward(context,
                       {.dy = half_grad, .x = saved.input, .statistics = saved.final_statistics, .dx = args.input_grad});
}

}  // namespace pipetrain
