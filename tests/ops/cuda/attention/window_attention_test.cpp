// Attention within a window on GPUs: every kernel gives what it gives for documents that begin where each query's window does.
#include <algorithm>
#include <optional>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

struct WindowCase {
  SegmentShape shape;
  std::int64_t window, document;  // document: tokens in each one, or 0 for one a sequence
};

std::int64_t document_begin(const WindowCase& of, std::int64_t position) {
  return of.document == 0 ? 0 : position - position % of.document;
}

// The first position that each query sees: that of its document, and of its window where `windowed`.
Tensor query_begins(Bench& b, const WindowCase& of, bool windowed) {
  Values begins({of.shape.batch, of.shape.queries});
  for (std::int64_t sequence = 0; sequence < of.shape.batch; ++sequence)
    for (std::int64_t query = 0; query < of.shape.queries; ++query) {
      const std::int64_t position = of.shape.first_query + query, document = document_begin(of, position);
      begins(sequence, query) = static_cast<double>(windowed ? std::max(document, position + 1 - of.window) : document);
    }
  return b.rank.put(begins, DType::i32);
}

struct AttentionResult {
  Values out, log_sum_exp;
  Tensor dq, dkv;
};

// The gradients are those of `kept`, so that they have the same inputs whichever kernel computed it.
class WindowedAttention {
 public:
  WindowedAttention(Bench& b, const WindowCase& of, Ops& ops)
      : b_(b),
        of_(of),
        ops_(ops),
        qkv_(b.put(b.draw({of.shape.tokens(), of.shape.query_cols()}))),
        kv_(b.put(b.draw({of.shape.batch * of.shape.keys, of.shape.key_value_cols()}))),
        dout_(b.put(b.draw({of.shape.tokens(), of.shape.query_cols()}))) {}

  AttentionResult run(const SegmentShape& shape, const std::optional<Tensor>& documents,
                      const AttentionResult* kept = nullptr) {
    const Tensor out = b_.poisoned({shape.tokens(), shape.query_cols()});
    const Tensor log_sum_exp = b_.rank.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
    ops_.attention(shape, {.q = qkv_, .kv = kv_, .out = out, .log_sum_exp = log_sum_exp, .documents = documents});
    AttentionResult result{b_.rank.get(out), b_.rank.get(log_sum_exp), {}, {}};
    const Tensor dq = b_.poisoned(qkv_.shape), dkv = b_.rank.put(Values(kv_.shape), DType::f32);
    ops_.attention_backward(shape, {.dout = dout_,
                                    .q = qkv_,
                                    .kv = kv_,
                                    .out = kept != nullptr ? b_.put(kept->out) : out,
                                    .log_sum_exp = kept != nullptr ? b_.put_f32(kept->log_sum_exp) : log_sum_exp,
                                    .dq = dq,
                                    .dkv = dkv,
                                    .accumulate_dkv = Accumulate::yes,
                                    .documents = documents});
    result.dq = dq, result.dkv = dkv;
    return result;
  }

 private:
  Bench& b_;
  const WindowCase& of_;
  Ops& ops_;
  Tensor qkv_, kv_, dout_;
};

void check_window(Bench& b, const WindowCase& of, Ops& ops) {
  SegmentShape windowed = of.shape;
  windowed.window = of.window;
  WindowedAttention attention(b, of, ops);
  const std::optional<Tensor> documents = of.document == 0 ? std::nullopt : std::optional(query_begins(b, of, false));
  const AttentionResult expected = attention.run(of.shape, query_begins(b, of, true));
  const AttentionResult found = attention.run(windowed, documents, &expected);
  CHECK(relative_error(found.out, expected.out) <= b.tolerance);
  CHECK(relative_error(found.log_sum_exp, expected.log_sum_exp) <= b.tolerance);
  const auto same = [&](const Tensor& a, const Tensor& e) {
    // Where the last query lies behind the last key, documents and a window take different kernels.
    return of.shape.ends_together() ? b.rank.bytes(a) == b.rank.bytes(e)
                                    : relative_error(b.rank.get(a), b.rank.get(e)) <= b.tolerance;
  };
  CHECK(same(found.dq, expected.dq));
  CHECK(same(found.dkv, expected.dkv));
}

TEST_CASE("GPU attention within a window is attention to documents that begin where the window does", "[gpu][window]") {
  const std::vector<WindowCase> cases{
      {whole_sequences(2, 512, {4, 2, 64}), 100, 0},
      {whole_sequences(2, 512, {4, 2, 128}), 128, 0},
      {whole_sequences(1, 1024, {2, 1, 128}), 1, 0},
      {whole_sequences(1, 384, {2, 2, 64}), 383, 0},
      {whole_sequences(2, 300, {4, 2, 64}), 64, 0},
      {whole_sequences(2, 77, {2, 1, 40}), 10, 0},
      {whole_sequences(2, 512, {4, 2, 256}), 100, 0},
      {whole_sequences(1, 448, {8, 4, 256}), 200, 0},
      {whole_sequences(2, 77, {2, 1, 256}), 10, 0},
      {whole_sequences(2, 200, {4, 2, 96}), 50, 0},
      {whole_sequences(2, 512, {4, 2, 96}), 200, 0},
      {whole_sequences(1, 192, {2, 1, 256}), 33, 50},
      {whole_sequences(2, 512, {4, 2, 64}), 100, 170},
      {whole_sequences(1, 200, {2, 1, 128}), 33, 50},
      {{.batch = 2, .queries = 256, .keys = 1024, .first_query = 768, .heads = 4, .kv_heads = 2, .head_dim = 64}, 300, 0},
      {{.batch = 1, .queries = 100, .keys = 500, .first_query = 400, .heads = 4, .kv_heads = 4, .head_dim = 128}, 99, 0},
      {{.batch = 2, .queries = 128, .keys = 448, .first_query = 320, .heads = 4, .kv_heads = 2, .head_dim = 256}, 150, 0},
      {{.batch = 1, .queries = 128, .keys = 512, .first_query = 600, .heads = 2, .kv_heads = 1, .head_dim = 256}, 250, 0},
      {{.batch = 1, .queries = 128, .keys = 512, .first_query = 600, .heads = 2, .kv_heads = 1, .head_dim = 64}, 250, 0},
  };
  for (const OpsBackend* backend : ops_backends()) {
    if (backend->name() != "cuda") continue;
    for (const DType dtype : backend->dtypes()) {
      for (const WindowCase& of : cases) {
        INFO(to_string(dtype) << ": " << of.shape.queries << " queries on " << of.shape.keys << " keys, heads of "
                              << of.shape.head_dim << ", window " << of.window << ", documents of " << of.document);
        TestTeam team(*backend, 1);
        Bench b{team, team[0], dtype, backend->tolerance(dtype)};
        const auto ops = make_cuda_ops(b.rank.stream(), true);
        check_window(b, of, *ops);
        CHECK(b.rank.guards_intact());
      }
    }
    return;
  }
  test::needs_gpus(0);
}

}  // namespace
}  // namespace pipetrain::testing
