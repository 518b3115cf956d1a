#include "model/blocks/chunked_head_block.hpp"

#include <algorithm>
#include <cassert>

namespace pipetrain {
namespace {

struct ChunkedHeadSaved final : BlockCompute::Saved {
  Tensor input;        // [Tr, H]
  Tensor targets;      // [T] i32
  Tensor log_sum_exp;  // [T] f32, chunk after chunk

  void relocate(const Relocation& moved) override {
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
    const Tensor part = context_.workspace.allocate({tokens(chunk)}, all.dtype);
    const RowSplit ranks(context_.tokens(), ranks_);
    std::int64_t filled = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const RowRange rows = rows_of(rank, chunk);
      const std::int64_t first = ranks.begin(rank);
      context_.ops.copy(all.row_range(first + rows.begin, first + rows.end), part.row_range(filled, filled + rows.count()));
      filled += rows.count();
    }
    return part;
  }

 private:
  RowRange rows_of(int rank, int chunk) const {
    const RowSplit own(RowSplit(context_.tokens(), ranks_).count(rank), count_);
    return {own.begin(chunk), own.end(chunk)};
  }

  const BlockContext& context_;
  int ranks_, count_ = 1;
};

}  // namespace

ChunkedHeadBlock::ChunkedHeadBlock(const ModelConfig& config, const TensorParallel& tp, int chunks)
    : vocabulary_(own_rows(config.outputs(), tp)), logits_(config), chunks_(chunks) {
  assert(!config.classifies() && chunks >= 1);
}

std::unique_ptr<BlockCompute::Saved> ChunkedHeadBlock::make_saved() const { return std::make_unique<ChunkedHeadSaved>(); }

void ChunkedHeadBlock::bind(const BoundTensors& tensors) { logits_.bind(tensors); }

void ChunkedHeadBlock::forward(const BlockContext& context, const ForwardArgs& args, Arena& memory, Saved& saved_base) const {
  assert(args.scores.data == nullptr);
  auto& saved = static_cast<ChunkedHeadSaved&>(saved_base);
  saved.input = args.input;
  saved.targets = args.targets;
  saved.log_sum_exp = memory.allocate({context.tokens()}, DType::f32);
  const TokenChunks parts(context, chunks_);
  std::int64_t done = 0;  // tokens
  for (int chunk = 0; chunk < parts.count(); ++chunk) {
    const ArenaScope scope(context.workspace);
    const BlockContext own = parts.context(chunk);
    const RowRange rows = parts.own_rows(chunk);
    NormedProjection::Saved projection;
    const Tensor logits =
        logits_.forward(own, args.input.row_range(rows.begin, rows.end), {&own.workspace, &own.workspace, nullptr}, projection);
    const Tensor sum = chunk == 0 ? args.loss_sum : own.workspace.allocate({1}, DType::f64);
    own.ops.cross_entropy({.tp = own.tp,
                           .logits = logits,
                           .targets = parts.gathered(saved.targets, chunk),
                           .vocabulary = vocabulary_,
                           .log_sum_exp = saved.log_sum_exp.row_range(done, done + own.tokens()),
                           .loss_sum = sum});
    if (chunk > 0) own.ops.add(args.loss_sum, sum);
    done += own.tokens();
  }
}

void ChunkedHeadBlock::backward(const BlockContext& context, const BackwardArgs& args, WeightGradients& gradients,
                                Saved& saved_base) const {
  const auto& saved = static_cast<const ChunkedHeadSaved&>(saved_base);
  const TokenChunks parts(context, chunks_);
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
                                    .scale = args.loss_scale});
    logits_.backward(own, {.output_grad = logits, .input_grad = args.input_grad.row_range(rows.begin, rows.end)}, of_chunk,
                     projection);
    done += own.tokens();
  }
}

}  // namespace pipetrain
