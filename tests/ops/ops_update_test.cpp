// The optimizers' updates, compared with plain double precision; previews and rounded copies are compared bit by bit.
#include <cmath>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

const AdamW adamw{
    .lr = 0.01F, .beta1 = 0.9F, .beta2 = 0.95F, .eps = 1e-8F, .weight_decay = 0.1F, .step = 3, .grad_scale = 0.5F};
const Lion lion{.lr = 0.01F, .beta1 = 0.9F, .beta2 = 0.99F, .weight_decay = 0.1F, .grad_scale = 0.5F};

TEST_CASE("AdamW follows the reference over several steps", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const std::int64_t count : {1, 1000, 70001}) {
      INFO(count << " elements");
      Values weight = b.draw_f32({count}), m(Shape{count}), v(Shape{count});
      const Tensor tw = b.put_f32(weight), tm = b.put_f32(m), tv = b.put_f32(v);
      AdamW settings = adamw;
      for (settings.step = 1; settings.step <= 3; ++settings.step) {
        const Values grad = b.draw_f32({count});
        const Tensor tg = b.put_f32(grad);
        b.team.run([&](TestRank& r) { r.ops().update({.weight = tw, .grad = tg, .states = {tm, tv}, .rule = settings}); });
        reference::adamw(weight, grad, m, v, settings);
      }
      CHECK(relative_error(b.rank.get(tw), weight) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(tm), m) < statistics_tolerance);
      CHECK(relative_error(b.rank.get(tv), v) < statistics_tolerance);
    }
  });
}

// Runs several steps of Lion. `sizes`: the tensors'.
void check_lion(Bench& b, const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t count : sizes) {
    INFO(count << " elements");
    Values weight = b.draw_f32({count}), m(Shape{count});
    const Tensor tw = b.put_f32(weight), tm = b.put_f32(m);
    for (int step = 0; step < 4; ++step) {
      const Values grad = b.draw_f32({count});
      const Tensor tg = b.put_f32(grad);
      b.team.run([&](TestRank& r) { r.ops().update({.weight = tw, .grad = tg, .states = {tm}, .rule = lion}); });
      const Values mean = reference::lion(weight, grad, m, lion);
      const Values found = b.rank.get(tw);
      // Rounding decides the sign of an average that is nearly zero, and the step continues from there.
      for (std::size_t i = 0; i < mean.data.size(); ++i)
        if (std::abs(mean.data[i]) < 1e-6) weight.data[i] = found.data[i];
      REQUIRE(relative_error(found, weight) < statistics_tolerance);
      REQUIRE(relative_error(b.rank.get(tm), m) < statistics_tolerance);
    }
  }
}

TEST_CASE("Lion follows the reference over several steps", "[ops]") {
  on_every_backend([](Bench& b) { check_lion(b, {1, 1000, 70001}); });
}

TEST_CASE("Lion on a GPU follows the reference in tensors of many blocks, aligned or not", "[gpu]") {
  bool ran = false;
  on_every_backend([&](Bench& b) {
    if (b.rank.device().id().kind != DeviceKind::cuda) return;
    check_lion(b, {3, 65536, 65537, 300001});
    ran = true;
  });
  if (!ran) test::needs_gpus(0);
}

TEST_CASE("Lion steps by the rate against the sign, and not where the average is zero", "[ops]") {
  on_every_backend([](Bench& b) {
    Values weights(Shape{3}), grads(Shape{3});
    weights.data = {1, 2, 3};
    grads.data = {0, 1, -4};
    const Tensor weight = b.put_f32(weights), m = b.put_f32(Values(Shape{3})), grad = b.put_f32(grads);
    const Lion plain{.lr = 0.5F, .beta1 = 0.9F, .beta2 = 0.99F};
    b.team.run([&](TestRank& r) { r.ops().update({.weight = weight, .grad = grad, .states = {m}, .rule = plain}); });
    const Values found = b.rank.get(weight);
    CHECK(found.data[0] == 1);
    CHECK(found.data[1] == 1.5);
    CHECK(found.data[2] == 3.5);
  });
}

TEST_CASE("a preview of an optimizer's step has the step's bits and changes nothing else", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const std::int64_t count : {1, 1000, 70001}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        for (const UpdateRule& rule : {UpdateRule(adamw), UpdateRule(lion)}) {
          INFO(count << " elements, " << to_string(dtype) << ", optimizer " << rule.index());
          const Tensor weight = b.put_f32(b.draw_f32({count})), grad = b.put_f32(b.draw_f32({count}));
          const Tensor m = b.put_f32(b.draw_f32({count})), v = b.put_f32(Values(Shape{count}));
          const Tensor preview = b.rank.poisoned({count}, dtype), rounded = b.rank.poisoned({count}, dtype);
          UpdateArgs args{.weight = weight, .grad = grad, .states = {m, v}, .rounded = preview, .preview = true, .rule = rule};
          const auto before = std::tuple(b.rank.bytes(weight), b.rank.bytes(m), b.rank.bytes(v));
          b.team.run([&](TestRank& r) { r.ops().update(args); });
          CHECK((std::tuple(b.rank.bytes(weight), b.rank.bytes(m), b.rank.bytes(v)) == before));
          args.rounded = rounded;
          args.preview = false;
          b.team.run([&](TestRank& r) { r.ops().update(args); });
          CHECK((b.rank.bytes(preview) == b.rank.bytes(rounded)));
          CHECK((b.rank.bytes(weight) != std::get<0>(before)));
          const Tensor again = b.rank.poisoned({count}, dtype);
          b.team.run([&](TestRank& r) { r.ops().round(weight, again); });
          CHECK((b.rank.bytes(again) == b.rank.bytes(rounded)));
        }
      }
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
