// Neither the number of compute threads nor a second run changes a bit of the results of operations.
#include <initializer_list>
#include <random>
#include <vector>

#include "catch.hpp"
#include "ops/ops_fixture.hpp"

namespace pipetrain::testing {
namespace {

// Runs operations on one rank and collects the bytes of their inputs and outputs, one tensor after another.
struct OpsBits {
  OpsBits(const OpsBackend& backend, DType type, int threads) : team(backend, 1, threads), dtype(type) {}

  Tensor put(const Shape& shape) { return team[0].put(random_values(shape, random, dtype), dtype); }
  Tensor put_f32(const Shape& shape) { return team[0].put(random_values(shape, random, DType::f32), DType::f32); }
  Tensor poisoned(const Shape& shape) { return team[0].poisoned(shape, dtype); }
  Tensor poisoned(const Shape& shape, DType type) { return team[0].poisoned(shape, type); }
  void add(std::initializer_list<Tensor> tensors) {
    for (const Tensor& tensor : tensors) {
      const auto bytes = team[0].bytes(tensor);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
  }

  TestTeam team;
  DType dtype;
  std::mt19937_64 random{5};
  std::vector<unsigned char> all;
};

// Sizes that give operations many tiles.
constexpr std::int64_t bit_tokens = 262, bit_hidden = 192, bit_inner = 500, bit_vocabulary = 1001;

void add_matrices_and_norms(OpsBits& b) {
  const Tensor x = b.put({bit_tokens, bit_hidden}), w = b.put({bit_inner, bit_hidden}), dy = b.put({bit_tokens, bit_inner});
  const Tensor gain = b.put({bit_hidden}), y = b.poisoned(dy.shape), dx = b.poisoned(x.shape), normed = b.poisoned(x.shape);
  const Tensor dw = b.put_f32(w.shape), dgain = b.put_f32(gain.shape), dnormed = b.poisoned(x.shape);
  const Tensor inv_rms = b.poisoned({bit_tokens}, DType::f32);
  b.team.run([&](TestRank& r) {
    Ops& ops = r.ops();
    ops.gather_matmul({.tp = r.tp(false), .kind = MatmulKind::forward, .shard = x, .w = w, .full = x, .out = y});
    ops.matmul_scatter({.tp = r.tp(false), .kind = MatmulKind::input_grad, .in = dy, .w = w, .out = dx});
    ops.weight_grad({.dy = dy, .x = x, .dw = dw});
    ops.rms_norm({.x = x, .weight = gain, .eps = 1e-5F, .y = normed, .inv_rms = inv_rms});
    ops.rms_norm_backward({.dy = dx, .x = x, .weight = gain, .inv_rms = inv_rms, .dx = dnormed, .dweight = dgain});
  });
  b.add({y, dx, dw, normed, inv_rms, dnormed, dgain});
}

void add_attention_and_mlp(OpsBits& b) {
  const SegmentShape shape = whole_sequences(2, bit_tokens / 2, {6, 2, 32});
  const Tensor qkv = b.put({bit_tokens, shape.packed_cols()}), dout = b.put({bit_tokens, shape.heads * shape.head_dim});
  const Tensor gate_up = b.put({bit_tokens, 2 * bit_inner}), dy = b.put({bit_tokens, bit_inner});
  const Tensor cos_sin =
      b.team[0].put(rounded(reference::rotary_table(shape.queries, shape.head_dim, 1e4), DType::f32), DType::f32);
  const Tensor attended = b.poisoned(dout.shape), dqkv = b.poisoned(qkv.shape);
  const Tensor attention_sums = b.poisoned({shape.batch, shape.heads, shape.queries}, DType::f32);
  const Tensor activated = b.poisoned(dy.shape), dgate_up = b.poisoned(gate_up.shape);
  b.team.run([&](TestRank& r) {
    Ops& ops = r.ops();
    ops.rotary(shape, {.qkv = qkv, .cos_sin = cos_sin});
    ops.attention(shape, {.q = qkv, .kv = qkv, .out = attended, .log_sum_exp = attention_sums});
    ops.attention_backward(
        shape, {.dout = dout, .q = qkv, .kv = qkv, .out = attended, .log_sum_exp = attention_sums, .dq = dqkv, .dkv = dqkv});
    ops.swiglu({.gate_up = gate_up, .y = activated});
    ops.swiglu_backward({.dy = dy, .gate_up = gate_up, .dgate_up = dgate_up});
  });
  b.add({qkv, attended, attention_sums, dqkv, activated, dgate_up});
}

void add_embedding_loss_and_optimizer(OpsBits& b) {
  const Tensor logits = b.put({bit_tokens, bit_vocabulary}), table = b.put({bit_vocabulary, bit_hidden});
  const Tensor ids = b.team[0].put(random_ids(bit_tokens, 0, bit_vocabulary, b.random), DType::i32);
  const Tensor embedded = b.poisoned({bit_tokens, bit_hidden}), dembedded = b.put({bit_tokens, bit_hidden});
  const Tensor dtable = b.put_f32(table.shape);
  const Tensor log_sum_exp = b.poisoned({bit_tokens}, DType::f32), loss = b.poisoned({1}, DType::f64);
  const Tensor m = b.put_f32({200001}), v = b.team[0].put(Values(Shape{200001}), DType::f32);
  const Tensor weight = b.put_f32({200001}), grad = b.put_f32({200001}), squares = b.poisoned({1}, DType::f64);
  const AdamW settings{.lr = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F};
  b.team.run([&](TestRank& r) {
    Ops& ops = r.ops();
    ops.embedding({.tp = r.tp(false), .ids = ids, .table = table, .first_id = 0, .out = embedded});
    ops.embedding_grad({.ids = ids, .dy = dembedded, .first_id = 0, .dtable = dtable});
    ops.cross_entropy({.tp = r.tp(false),
                       .logits = logits,
                       .targets = ids,
                       .vocabulary = {0, logits.cols()},
                       .log_sum_exp = log_sum_exp,
                       .loss_sum = loss});
    ops.cross_entropy_backward(
        {.logits = logits, .targets = ids, .vocabulary = {0, logits.cols()}, .log_sum_exp = log_sum_exp, .scale = 0.5F});
    ops.square_sum(grad, squares);
    ops.update({.weight = weight, .grad = grad, .states = {m, v}, .rule = settings});
    ops.add(grad, weight);
  });
  b.add({embedded, dtable, log_sum_exp, loss, logits, squares, weight, m, v, grad});
}

// Runs all operations that divide their work into tiles.
std::vector<unsigned char> bits_of_all_ops(const OpsBackend& backend, DType dtype, int threads) {
  OpsBits bits(backend, dtype, threads);
  add_matrices_and_norms(bits);
  add_attention_and_mlp(bits);
  add_embedding_loss_and_optimizer(bits);
  return bits.all;
}

TEST_CASE("results are the same bits for every number of threads and in every run", "[ops]") {
  for (const OpsBackend* backend : ops_backends()) {
    for (const DType dtype : backend->dtypes()) {
      if (backend->name() != "cpu" && dtype != DType::f32) continue;  // a library's attention, unless it is told to
      const auto expected = bits_of_all_ops(*backend, dtype, 1);
      for (const int threads : {1, 2, 3}) {
        INFO(backend->name() << " " << to_string(dtype) << ", " << threads << " threads");
        CHECK((bits_of_all_ops(*backend, dtype, threads) == expected));
      }
    }
  }
}

}  // namespace
}  // namespace pipetrain::testing
