// Attention's backward on Hopper GPUs divides large work into sections, and assigns each block to the next free CTA.
#include <optional>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

struct Work {
  SegmentShape shape;
  bool has_documents, turns;
};

SegmentShape latent(SegmentShape shape) {
  shape.own_value_dim = 128;
  return shape;
}

// Returns sequences from `first` on of a tensor whose first axis is sequences or their tokens.
Tensor sequences_of(const Tensor& all, std::int64_t batch, std::int64_t first, std::int64_t count) {
  Tensor some = all;
  some.shape = all.shape.with(0, all.shape[0] / batch * count);
  some.data = static_cast<char*>(all.data) + all.bytes() / static_cast<std::size_t>(batch) * static_cast<std::size_t>(first);
  return some;
}

struct SectionInputs {
  Tensor qkv, dout, out, log_sum_exp;
  std::optional<Tensor> documents, cos_sin;
};

SectionInputs inputs_of(Bench& b, const Work& work, Ops& ops) {
  const SegmentShape& shape = work.shape;
  SectionInputs in{.qkv = b.put(b.draw({shape.tokens(), shape.packed_cols()})),
                   .dout = b.put(b.draw({shape.tokens(), shape.output_cols()})),
                   .out = b.poisoned({shape.tokens(), shape.output_cols()}),
                   .log_sum_exp = b.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32)};
  if (work.has_documents) {
    Values begins({shape.batch, shape.queries});
    for (std::int64_t sequence = 0; sequence < shape.batch; ++sequence)
      for (std::int64_t i = 0, length = 150 + 37 * sequence; i < shape.queries; ++i)
        begins(sequence, i) = static_cast<double>(i / length * length);
    in.documents = b.rank.put(begins, DType::i32);
  }
  if (work.turns) in.cos_sin = b.put_f32(rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32));
  ops.attention(shape, {.q = in.qkv, .kv = in.qkv, .out = in.out, .log_sum_exp = in.log_sum_exp, .documents = in.documents});
  return in;
}

// Computes this many sequences at a time.
std::vector<unsigned char> gradient_of(Bench& b, const Work& work, const SectionInputs& in, Ops& ops, std::int64_t count) {
  const Tensor dqkv = b.poisoned(in.qkv.shape);
  SegmentShape shape = work.shape;
  shape.batch = count;
  for (std::int64_t first = 0; first < work.shape.batch; first += count) {
    const auto some = [&](const Tensor& all) { return sequences_of(all, work.shape.batch, first, count); };
    AttentionBackwardArgs args{.dout = some(in.dout),
                               .q = some(in.qkv),
                               .kv = some(in.qkv),
                               .out = some(in.out),
                               .log_sum_exp = some(in.log_sum_exp),
                               .dq = some(dqkv),
                               .dkv = some(dqkv)};
    if (in.documents) args.documents = some(*in.documents);
    args.cos_sin = in.cos_sin;
    ops.attention_backward(shape, args);
  }
  return b.rank.bytes(dqkv);
}

// Sums of one sequence do not depend on the others, so many sequences in sections have the bits of each alone, which is
// one section.
TEST_CASE("GPU attention's backward has the same bits in sections as in one, and again", "[gpu]") {
  for (const OpsBackend* backend : ops_backends()) {
    if (backend->name() != "cuda") continue;
    for (const Work& work :
         {Work{whole_sequences(4, 1024, {8, 8, 64}), false, true}, Work{whole_sequences(4, 1024, {8, 8, 128}), false, true},
          Work{whole_sequences(4, 1000, {8, 8, 64}), false, true}, Work{whole_sequences(4, 1000, {8, 8, 96}), false, true},
          Work{whole_sequences(4, 1000, {8, 8, 256}), true, false}, Work{whole_sequences(4, 1024, {8, 8, 256}), false, true},
          Work{whole_sequences(3, 448, {5, 1, 256}), true, false}, Work{whole_sequences(4, 1024, {8, 8, 64}), true, false},
          Work{whole_sequences(3, 512, {5, 5, 64}), false, false},
          Work{latent(whole_sequences(4, 1000, {8, 8, 192})), false, false},
          Work{latent(whole_sequences(3, 512, {5, 5, 192})), true, false}}) {
      const SegmentShape& shape = work.shape;
      INFO(shape.batch << " x " << shape.queries << ", " << shape.heads << " heads of " << shape.head_dim
                       << (work.has_documents ? ", documents" : ""));
      TestTeam team(*backend, 1);
      Bench b{team, team[0], DType::bf16, backend->tolerance(DType::bf16)};
      const auto ops = make_cuda_ops(b.rank.stream(), true);
      const SectionInputs in = inputs_of(b, work, *ops);
      const auto together = gradient_of(b, work, in, *ops, shape.batch);
      CHECK((gradient_of(b, work, in, *ops, shape.batch) == together));
      CHECK((gradient_of(b, work, in, *ops, 1) == together));
    }
    return;
  }
  test::needs_gpus(0);
}

}  // namespace
}  // namespace pipetrain::testing
