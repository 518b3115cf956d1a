// The operations of GPT-OSS and DeepSeek on GPUs against those of CPUs, which follow the families' golden trajectories.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "ops/routing_case.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

// Keeps what the first backend, the CPU, computes for each type, and compares the others' results with it.
class SameResults {
 public:
  void check(Bench& b, const std::string& name, const Tensor& found, double tolerance) {
    const Values values = b.rank.get(found);
    const auto [expected, is_first] = expected_.try_emplace({name, b.dtype}, values);
    if (is_first) return;
    INFO(name);
    CHECK(relative_error(values, expected->second) <= tolerance);
  }

 private:
  std::map<std::pair<std::string, DType>, Values> expected_;
};

struct AttentionCase {
  SegmentShape shape;
  std::int64_t document = 0;  // tokens of each document; 0: one a sequence
  bool sums = false;          // the gradients of keys and values are added to sums in f32
};

SegmentShape latent_shape(std::int64_t batch, std::int64_t queries, std::int64_t keys, std::int64_t head_dim,
                          std::int64_t value) {
  return {.batch = batch,
          .queries = queries,
          .keys = keys,
          .first_query = keys - queries,
          .heads = 2,
          .kv_heads = 2,
          .head_dim = head_dim,
          .own_value_dim = value,
          .scale = 0.11F};
}

SegmentShape windowed(SegmentShape shape, std::int64_t window) {
  shape.window = window;
  return shape;
}
SegmentShape shared_keys(SegmentShape shape, std::int64_t heads) {
  shape.heads = heads;
  return shape;
}

std::optional<Tensor> put_documents(Bench& b, const AttentionCase& of) {
  if (of.document == 0) return {};
  Values begins(Shape{of.shape.tokens()});
  for (std::int64_t t = 0; t < of.shape.tokens(); ++t) {
    const std::int64_t position = t % of.shape.queries;
    begins.data[static_cast<std::size_t>(t)] = static_cast<double>(position - position % of.document);
  }
  return b.rank.put(begins, DType::i32);
}

void check_attention(Bench& b, const AttentionCase& of, const std::string& name, SameResults& results) {
  const SegmentShape& s = of.shape;
  const Tensor q = b.put(b.draw({s.tokens(), s.query_cols() + 8})), kv = b.put(b.draw({s.batch * s.keys, s.key_value_cols()})),
               dout = b.put(b.draw({s.tokens(), s.output_cols()})), out = b.poisoned({s.tokens(), s.output_cols()}),
               sums = b.rank.poisoned({s.batch, s.heads, s.queries}, DType::f32);
  const std::optional<Tensor> documents = put_documents(b, of);
  const Tensor dq = b.put(Values({s.tokens(), s.query_cols() + 8}));
  const Tensor dkv = of.sums ? b.put_f32(b.draw_f32(kv.shape)) : b.poisoned(kv.shape);
  b.team.run([&](TestRank& r) {
    r.ops().attention(s, {.q = q, .kv = kv, .out = out, .log_sum_exp = sums, .documents = documents});
    r.ops().attention_backward(s, {.dout = dout,
                                   .q = q,
                                   .kv = kv,
                                   .out = out,
                                   .log_sum_exp = sums,
                                   .dq = dq,
                                   .dkv = dkv,
                                   .accumulate_dkv = of.sums ? Accumulate::yes : Accumulate::no,
                                   .documents = documents});
  });
  results.check(b, name + " out", out, b.tolerance);
  results.check(b, name + " sums", sums, b.tolerance);
  results.check(b, name + " dq", dq, 2 * b.tolerance);
  results.check(b, name + " dkv", dkv, 2 * b.tolerance);
}

void check_sinks(Bench& b, std::int64_t dim, SameResults& results) {
  constexpr std::int64_t runs = 3, heads = 5, queries = 70;
  const Tensor logits = b.put(b.draw({heads})), out = b.put(b.draw({runs * queries, heads * dim})),
               dout = b.put(b.draw({runs * queries, heads * dim})), sums = b.put_f32(b.draw_f32({runs, heads, queries})),
               dlogits = b.put_f32(b.draw_f32({heads}));
  b.team.run([&](TestRank& r) {
    r.ops().add_sinks({.logits = logits, .out = out, .log_sum_exp = sums});
    r.ops().sinks_backward({.logits = logits, .dout = dout, .out = out, .log_sum_exp = sums, .dlogits = dlogits});
  });
  results.check(b, "out with sinks", out, b.tolerance);
  results.check(b, "sums with sinks", sums, statistics_tolerance);
  results.check(b, "gradient of sinks", dlogits, b.tolerance);
}

void check_latent_heads(Bench& b, const SegmentShape& s, std::int64_t rotated, bool interleaved, SameResults& results) {
  const std::int64_t expanded = s.heads * (s.head_dim - rotated + s.value_dim());
  const std::string name = std::to_string(s.head_dim) + (interleaved ? " interleaved " : " ");
  const Tensor q = b.put(b.draw({s.tokens(), s.query_cols()})), key_value = b.put(b.draw({s.tokens(), expanded})),
               shared = b.put(b.draw({s.tokens(), rotated})),
               table = b.put_f32(reference::rotary_table(s.queries, rotated, 100)),
               qkv = b.poisoned({s.tokens(), s.packed_cols()}), dqkv = b.put(b.draw({s.tokens(), s.packed_cols()})),
               dq = b.poisoned(q.shape), dkey_value = b.poisoned(key_value.shape),
               drotated = b.rank.poisoned({s.tokens(), rotated}, DType::f32);
  b.team.run([&](TestRank& r) {
    r.ops().latent_heads(
        s, {.q = q, .key_value = key_value, .rotated = shared, .cos_sin = table, .interleaved = interleaved, .qkv = qkv});
    r.ops().latent_heads_backward(
        s,
        {.dqkv = dqkv, .cos_sin = table, .interleaved = interleaved, .dq = dq, .dkey_value = dkey_value, .drotated = drotated});
  });
  results.check(b, name + "qkv", qkv, b.tolerance);
  results.check(b, name + "dq", dq, b.tolerance);
  results.check(b, name + "dkey_value", dkey_value, b.tolerance);
  results.check(b, name + "drotated", drotated, b.tolerance);
}

void check_cached_latents(Bench& b, SameResults& results) {
  constexpr std::int64_t rank = 48, rotated = 8, first = 9, tokens = 5, keys = first + tokens;
  SegmentShape s = latent_shape(1, tokens, keys, 24, 16);
  const std::int64_t plain = s.head_dim - rotated;
  const Tensor q = b.put(b.draw({tokens, s.query_cols()})), latent = b.put(b.draw({tokens, rank})),
               shared = b.put(b.draw({tokens, rotated})),
               expand = b.put(b.draw({s.heads * (plain + s.value_dim()), rank}, 0.2)),
               table = b.put_f32(reference::rotary_table(tokens, rotated, 100)),
               cache = b.put(b.draw({keys + 2, rank + rotated})), out = b.poisoned({tokens, s.output_cols()});
  b.team.run([&](TestRank& r) {
    r.ops().cached_latent_attention(s, {.q = q,
                                        .latent = latent,
                                        .rotated = shared,
                                        .expand = expand,
                                        .cos_sin = table,
                                        .interleaved = true,
                                        .cache = cache,
                                        .out = out});
  });
  results.check(b, "cached latents", out, b.tolerance);
  results.check(b, "cache", cache, b.tolerance);
}

void check_expert_biases(Bench& b, std::int64_t cols, SameResults& results) {
  const std::int64_t rows = 90, all = 3 * cols, first = cols;
  Values offsets(Shape{5});
  offsets.data = {0, 31, 31, 70, 84};  // an expert without rows, and rows of none
  const Tensor x = b.put(b.draw({rows, all})), bias = b.put(b.draw({4 * cols})), weights = b.put_f32(b.draw_f32({rows})),
               at = b.rank.put(offsets, DType::i32), dbias = b.put_f32(b.draw_f32({4 * cols})),
               dots = b.put_f32(Values(Shape{rows})), dy = b.put(b.draw({rows, all}));
  b.team.run([&](TestRank& r) {
    r.ops().add_expert_bias({.x = x, .bias = bias, .offsets = at, .weights = weights, .first_column = first});
    r.ops().expert_bias_backward(
        {.dy = dy, .bias = bias, .offsets = at, .weights = weights, .first_column = first, .dbias = dbias, .dots = dots});
  });
  results.check(b, "rows with biases", x, b.tolerance);
  results.check(b, "gradient of biases", dbias, b.tolerance);
  results.check(b, "products with biases", dots, b.tolerance);
}

void check_clamped_unit(Bench& b, std::int64_t inner, SameResults& results) {
  const GateClamps clamps{.alpha = 1.7F, .limit = 1.25F};
  const Tensor halves = b.put(b.draw({40, 2 * inner})), y = b.poisoned({40, inner}), dy = b.put(b.draw({40, inner})),
               gradients = b.poisoned({40, 2 * inner});
  b.team.run([&](TestRank& r) {
    r.ops().swiglu({.gate_up = halves, .y = y, .gate = GateKind::clamped, .clamps = clamps});
    r.ops().swiglu_backward({.dy = dy, .gate_up = halves, .dgate_up = gradients, .gate = GateKind::clamped, .clamps = clamps});
  });
  results.check(b, "clamped unit", y, b.tolerance);
  results.check(b, "gradient of a clamped unit", gradients, b.tolerance);
}

struct RuleCase {
  RouterCase size;
  ScoreRule rule;
  bool corrected;
};

void check_router(Bench& b, const RuleCase& of, const std::string& name, SameResults& results) {
  const RouterCase& size = of.size;
  const Routing routing = poisoned_routing(b, size);
  const Tensor logits = b.put_f32(b.draw_f32({size.tokens(), size.experts})),
               correction = of.corrected ? b.put_f32(b.draw_f32({size.experts}, 0.3)) : Tensor{},
               dweights = b.put_f32(b.draw_f32({size.tokens() * size.chosen})),
               counts = b.rank.put(Values({size.batch, size.experts}), DType::i32),
               dlogits = b.rank.poisoned({size.tokens(), size.experts}, DType::f32),
               statistics = b.rank.put(Values(Shape{size.experts + 3}), DType::f64);
  b.team.run([&](TestRank& r) {
    r.ops().route(
        {.logits = logits, .normalised = size.normalised, .rule = of.rule, .correction = correction, .routing = routing});
    r.ops().count_experts({.experts = routing.experts, .counts = counts});
    r.ops().route_backward({.routing = routing,
                            .normalised = size.normalised,
                            .rule = of.rule,
                            .dweights = dweights,
                            .losses = RouterLosses{.counts = counts, .layers = 1, .balance_scale = 0.7F, .z_scale = 0},
                            .dlogits = dlogits,
                            .statistics = statistics});
  });
  for (const auto& [of_routing, tensor] :
       {std::pair("experts", routing.experts), std::pair("places", routing.places), std::pair("tokens", routing.tokens)})
    results.check(b, name + of_routing, tensor, 0);
  results.check(b, name + "weights", routing.weights, statistics_tolerance);
  results.check(b, name + "dlogits", dlogits, statistics_tolerance);
  results.check(b, name + "statistics", statistics, statistics_tolerance);
}

bool has_gpu() { return test::needs_gpus(cuda_device_count(), 1); }

}  // namespace

TEST_CASE("GPU attention whose values are narrower than its keys gives what it gives on CPUs", "[gpu][latent]") {
  if (!has_gpu()) return;
  const std::vector<AttentionCase> cases{{latent_shape(2, 70, 70, 24, 16)},
                                         {latent_shape(2, 70, 70, 24, 16), 30},
                                         {latent_shape(1, 40, 90, 24, 16), 0, true},
                                         {latent_shape(1, 256, 256, 192, 128)},
                                         {latent_shape(1, 200, 200, 192, 128)},
                                         {latent_shape(2, 77, 77, 192, 128)},
                                         {latent_shape(2, 1000, 1000, 192, 128)},
                                         {latent_shape(1, 256, 256, 192, 128), 100},
                                         {latent_shape(2, 328, 328, 192, 128), 45},
                                         {windowed(latent_shape(2, 512, 512, 192, 128), 100)},
                                         {windowed(latent_shape(1, 384, 384, 192, 128), 200), 130},
                                         {shared_keys(latent_shape(2, 256, 256, 192, 128), 6)},
                                         {latent_shape(1, 128, 384, 192, 128), 0, true},
                                         {latent_shape(2, 256, 256, 192, 128), 0, true}};
  SameResults results;
  on_every_backend([&](Bench& b) {
    for (std::size_t i = 0; i < cases.size(); ++i) check_attention(b, cases[i], "case " + std::to_string(i), results);
  });
}

TEST_CASE("GPUs compute the heads of latent attention, and generate with latent vectors, as CPUs do", "[gpu][latent]") {
  if (!has_gpu()) return;
  SameResults results;
  on_every_backend([&](Bench& b) {
    for (const bool interleaved : {false, true}) {
      check_latent_heads(b, latent_shape(2, 9, 9, 7, 5), 4, interleaved, results);
      check_latent_heads(b, latent_shape(2, 9, 9, 192, 128), 64, interleaved, results);
    }
    check_cached_latents(b, results);
  });
}

TEST_CASE("GPUs compute the sinks, biases and clamped units of GPT-OSS as CPUs do", "[gpu][sinks]") {
  if (!has_gpu()) return;
  for (const std::int64_t cols : {5, 64}) {
    SameResults results;
    on_every_backend([&](Bench& b) {
      check_sinks(b, cols, results);
      check_expert_biases(b, cols, results);
      check_clamped_unit(b, cols, results);
    });
  }
}

TEST_CASE("GPUs route by sigmoids, groups and corrections as CPUs do", "[gpu][experts]") {
  if (!has_gpu()) return;
  const std::vector<RuleCase> cases{
      {{2, 50, 16, 3, false}, {.groups = 4, .chosen_groups = 2, .scale = 2.5F}, false},
      {{2, 50, 64, 6, true}, {.sigmoid = true, .groups = 8, .chosen_groups = 4, .pairs = true, .scale = 2.5F}, true},
      {{1, 70, 8, 2, true}, {.sigmoid = true}, true},
      {{1, 70, 40, 4, false}, {.sigmoid = true, .groups = 20, .chosen_groups = 3, .pairs = true}, false}};
  SameResults results;
  on_every_backend([&](Bench& b) {
    for (std::size_t i = 0; i < cases.size(); ++i) check_router(b, cases[i], "case " + std::to_string(i) + " ", results);
  });
}

}  // namespace pipetrain::testing
