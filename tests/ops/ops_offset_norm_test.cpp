// Operations of Gemma that other families do not have: norms of an offset and a weight, with a residual; gates of a GELU;
// scaled rows; norms of heads; scores with a scale of their own.
#include <cmath>

#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

double gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }

Values with_offset(Values weight, double offset) {
  for (double& value : weight.data) value += offset;
  return weight;
}

// gelu(gate) * up of one element.
struct Gated {
  double gate, up;
  double value() const { return gelu(gate) * up; }
};

TEST_CASE("an RMSNorm of a weight and an offset, with a residual, matches the reference", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : {Shape{1, 64}, Shape{5, 31}, Shape{77, 200}, Shape{300, 256}, Shape{65, 2560}, Shape{9, 5376}}) {
      INFO(to_string(shape));
      const Values x = b.draw(shape), w = b.draw({shape[1]}), dy = b.draw(shape), residual = b.draw(shape);
      const Tensor tx = b.put(x), tw = b.put(w), tdy = b.put(dy), tr = b.put(residual);
      const Tensor y = b.poisoned(shape), inv_rms = b.rank.poisoned({shape[0]}, DType::f32), dx = b.poisoned(shape);
      const Tensor dweight = b.put_f32(Values(Shape{shape[1]}));
      b.team.run([&](TestRank& r) {
        r.ops().rms_norm({.x = tx, .weight = tw, .eps = 1e-5F, .y = y, .inv_rms = inv_rms, .offset = 1, .residual = tr});
        r.ops().rms_norm_backward(
            {.dy = tdy, .x = tx, .weight = tw, .inv_rms = inv_rms, .dx = dx, .dweight = dweight, .offset = 1});
      });
      const Values gain = with_offset(w, 1);
      const auto grads = reference::rms_norm_backward(dy, x, gain, 1e-5);
      CHECK(relative_error(b.rank.get(y), plus(reference::rms_norm(x, gain, 1e-5).y, residual)) < b.tolerance);
      CHECK(relative_error(b.rank.get(dx), grads.dx) < b.tolerance);
      CHECK(relative_error(b.rank.get(dweight), grads.dweight) < statistics_tolerance);
    }
  });
}

TEST_CASE("a gate of a GELU and its gradient match finite differences in double precision", "[ops]") {
  on_every_backend([](Bench& b) {
    const std::int64_t rows = 37, inner = 33;
    const Values gate_up = b.draw({rows, 2 * inner}), dy = b.draw({rows, inner});
    Values expected(Shape{rows, inner}), gradient(gate_up.shape);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < inner; ++i) {
        constexpr double step = 1e-5;
        const Gated at{gate_up(row, i), gate_up(row, inner + i)};
        expected(row, i) = at.value();
        gradient(row, i) =
            dy(row, i) * (Gated{at.gate + step, at.up}.value() - Gated{at.gate - step, at.up}.value()) / (2 * step);
        gradient(row, inner + i) = dy(row, i) * gelu(at.gate);
      }
    }
    const Tensor tx = b.put(gate_up), tdy = b.put(dy), y = b.poisoned({rows, inner}), dx = b.poisoned(gate_up.shape);
    b.team.run([&](TestRank& r) {
      r.ops().swiglu({.gate_up = tx, .y = y, .gate = GateKind::gelu});
      r.ops().swiglu_backward({.dy = tdy, .gate_up = tx, .dgate_up = dx, .gate = GateKind::gelu});
    });
    CHECK(relative_error(b.rank.get(y), expected) < b.tolerance);
    CHECK(relative_error(b.rank.get(dx), gradient) < b.tolerance);
  });
}

TEST_CASE("rows are scaled by a factor of their own type, in place or not", "[ops]") {
  on_every_backend([](Bench& b) {
    const float factor = std::sqrt(1152.0F);  // 34 in bf16
    const Values x = b.draw({9, 40});
    Values expected = x;
    const double rounded = b.dtype == DType::bf16 ? 34 : b.dtype == DType::f16 ? 33.9375 : factor;
    for (double& value : expected.data) value *= rounded;
    const Tensor tx = b.put(x), out = b.poisoned(x.shape), in_place = b.put(x);
    b.team.run([&](TestRank& r) {
      r.ops().scale({.x = tx, .out = out, .factor = factor});
      r.ops().scale({.x = in_place, .out = in_place, .factor = factor});
    });
    CHECK(relative_error(b.rank.get(out), expected) < b.tolerance);
    CHECK(b.rank.bytes(out) == b.rank.bytes(in_place));
  });
}

}  // namespace
}  // namespace pipetrain::testing
