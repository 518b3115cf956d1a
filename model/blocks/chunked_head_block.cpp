#include "model/blocks/chunked_head_block.hpp"

#include <algorithm>
#include <cassert>

namespace pipetrain {
namespace {

struct ChunkedHeadSaved final : BlockCompute::Saved {
  Tensor input;        // [Tr, H]
  Tensor targets;      // [T] i32
  Tensor log_sum_exp;  // [T] f32, chunk after chunk
  SequenceLosses::Saved sequences;

  void relocate(const Relocation& moved) override {
    sequences.relocate(moved);
    for (Tensor* const view : {&input, &targets, &log_sum_exp}) moved.move(*view);
  }
};

struct RowRange {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
};

// The tokens of one chunk. It takes the same share of every rank's rows, so that a chunk is spread over the
// ranks as a microbatch is.
class TokenChunks {
 public:
  TokenChunks(const BlockContext& context, int most) : context_(context), ranks_(context.gathers() ? context.tp.size() : 1) {
    const std::int64_t fewest = RowSplit(context.tokens(), ranks_).count(ranks_ - 1);
    count_ = static_cast<int>(std::clamp<std::int64_t>(fewest, 1, most));
  }

  int count() const { return count_; }
  // Returns the chunk's rows among those that this rank holds.
  RowRange own_rows(int chunk) const { return rows_of(context_.gathers() ? context_.tp.rank() : 0, chunk); }
  std::int64_t tokens(int chunk) const {
    std::int64_t sum = 0;
    for (int rank = 0; rank < ranks_; ++rank) sum += rows_of(rank, chunk).count();
    return sum;
  }
  BlockContext context(int chunk) const {
    BlockContext own = context_;
    own.shape = {1, tokens(chunk)};
    return own;
  }
  // Returns the chunk's part of `all` [T], in the order in which its rows are gathered.
  Tensor gathered(const Tensor& all, int chunk) const {
    if (ranks_ == 1) return all.row_range(own_rows(chunk).begin, own_rows(chunk).end);
    const Tensor part = part_of(all, chunk);
    each_piece(part, chunk, all, [&](const Tensor& own, const Tensor& place) { context_.ops.copy(place, own); });
    return part;
  }
  // Returns memory for the chunk's part of `all`: in place where there is one rank, else in the workspace.
  Tensor part_of(const Tensor& all, int chunk) const {
    if (ranks_ == 1) return all.row_range(own_rows(chunk).begin, own_rows(chunk).end);
    return context_.workspace.allocate({tokens(chunk)}, all.dtype);
  }
  // The inverse of gathered(): copies the chunk's part to its places in `all`, unless it is there.
  void put_back(const Tensor& part, int chunk, const Tensor& all) const {
    if (ranks_ > 1)
      each_piece(part, chunk, all, [&](const Tensor& own, const Tensor& place) { context_.ops.copy(own, place); });
  }

 private:
  // Calls use(piece of the part, its place in `all`) for each rank's rows.
  template <class Use>
  void each_piece(const Tensor& part, int chunk, const Tensor& all, const Use& use) const {
    const RowSplit ranks(context_.tokens(), ranks_);
    std::int64_t filled = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const RowRange rows = rows_of(rank, chunk);
      const std::int64_t first = ranks.begin(rank);
      use(part.row_range(filled, filled + rows.count()), all.row_range(first + rows.begin, first + rows.end));
      filled += rows.count();
    }
  }
  RowRange rows_of(int rank, int chunk) const {
    const RowSplit own(RowSplit(context_.tokens(), ranks_).count(rank), count_);
    return {own.begin(chunk), own.end(chunk)};
  }

  const BlockContext& context_;
  int ranks_, count_ = 1;
};

std::vector<const SequenceLosses::Saved*> earlier_slices(const BlockContext& context) {
  std::vector<const SequenceLosses::Saved*> earlier;
  if (context.slice == nullptr) return earlier;
  for (const BlockCompute::Saved* slice : context.slice->earlier)
    earlier.push_back(&static_cast<const ChunkedHeadSaved&>(*slice).sequences);
  return earlier;
}

}  // namespace

ChunkedHeadBlock::ChunkedHeadBlock(const ModelConfig& config, const TensorParallel& tp, int chunks, bool has_norm)
    : vocabulary_(own_rows(config.outputs(), tp)), logits_(config, tp, has_norm), losses_(config.preference), chunks_(chunks) {
  assert(!config.classifies() && chunks >= 1);
}

std::unique_ptr<BlockCompute::Saved> ChunkedHeadBlock::make_saved() const { return std::make_unique<ChunkedHeadSaved>(); }

void ChunkedHeadBlock::bind(const BoundTensors& tensors) { logits_.bind(tensors); }

void ChunkedHeadBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  assert(args.scores.data == nullptr);
  auto& saved = static_cast<ChunkedHeadSaved&>(saved_base);
  saved.input = args.input;
  saved.targets = losses_.are_used() ? losses_.begin(context, args, memory, saved.sequences) : args.targets;
  saved.log_sum_exp = memory.allocate({context.tokens()}, DType::f32);
  const TokenChunks parts(context, chunks_);
  const ArenaScope outer(context.workspace);
  std::optional<Tensor> token_losses;
  if (losses_.are_used()) token_losses = context.workspace.allocate({context.tokens()}, DType::f32);
  std::int64_t done = 0;  // tokens
  for (int chunk = 0; chunk < parts.count(); ++chunk) {
    const ArenaScope scope(context.workspace);
    const BlockContext own = parts.context(chunk);
    const RowRange rows = parts.own_rows(chunk);
    NormedProjection::Saved projection;
    const Tensor logits =
        logits_.forward(own, args.input.row_range(rows.begin, rows.end), {&own.workspace, &own.workspace, nullptr}, projection);
    const Tensor sum = chunk == 0 && !token_losses ? args.loss_sum : own.workspace.allocate({1}, DType::f64);
    const auto own_losses = token_losses ? std::optional(parts.part_of(*token_losses, chunk)) : std::nullopt;
    own.ops.cross_entropy({.tp = own.tp,
                           .logits = logits,
                           .targets = parts.gathered(saved.targets, chunk),
                           .vocabulary = vocabulary_,
                           .log_sum_exp = saved.log_sum_exp.row_range(done, done + own.tokens()),
                           .loss_sum = sum,
                           .token_losses = own_losses});
    if (own_losses) parts.put_back(*own_losses, chunk, *token_losses);
    if (chunk > 0 && !token_losses) own.ops.add(args.loss_sum, sum);
    done += own.tokens();
  }
  if (token_losses) losses_.finish(context, args, *token_losses, earlier_slices(context), saved.sequences);
}

void ChunkedHeadBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                Saved& saved_base) const {
  const auto& saved = static_cast<const ChunkedHeadSaved&>(saved_base);
  const TokenChunks parts(context, chunks_);
  const ArenaScope outer(context.workspace);
  std::optional<Tensor> scales;
  if (losses_.are_used()) scales = losses_.token_scales(context, saved.sequences);
  std::int64_t done = 0;
  for (int chunk = 0; chunk < parts.count(); ++chunk) {
    const ArenaScope scope(context.workspace);
    const BlockContext own = parts.context(chunk);
    const RowRange rows = parts.own_rows(chunk);
    WeightGradients of_chunk = gradients.of_part(chunk == 0, chunk + 1 == parts.count());
    Arena& kept = of_chunk.memory();
    NormedProjection::Saved projection;
    const Tensor logits = logits_.forward(own, saved.input.row_range(rows.begin, rows.end), {&kept, &kept, &kept}, projection);
    own.ops.cross_entropy_backward({.logits = logits,
                                    .targets = parts.gathered(saved.targets, chunk),
                                    .vocabulary = vocabulary_,
                                    .log_sum_exp = saved.log_sum_exp.row_range(done, done + own.tokens()),
                                    .scale = args.loss_scale,
                                    .token_scales = scales ? std::optional(parts.gathered(*scales, chunk)) : std::nullopt});
    logits_.backward(own, {.output_grad = logits, .input_grad = args.input_grad.row_range(rows.begin, rows.end)}, of_chunk,
                     projection);
    done += own.tokens();
  }
}

}  // namespace pipetrain
