// GPT-2's operations on a GPU at shapes that fill it, compared with the double precision reference. The tests of every
// backend, with their many small shapes, run on GPUs too.
#include "catch.hpp"
#include "ops/ops_bench.hpp"
#include "skip.hpp"

namespace pipetrain::testing {
namespace {

constexpr std::int64_t first_token = 5;

struct Gpt2Inputs {
  Values x, dy, residual, w, bias, table;
  std::int64_t sequence;

  Gpt2Inputs(Bench& b, const Shape& shape)
      : x(b.draw(shape)),
        dy(b.draw(shape)),
        residual(b.draw(shape)),
        w(b.draw({shape[1]})),
        bias(b.draw({shape[1]})),
        table(b.draw({shape[0] / 3 + 1, shape[1]})),
        sequence(shape[0] / 3 + 1) {}
};

struct Outputs {
  Tensor mean, inv_std, normed, dx, dweight, dbias;  // of the norm
  Tensor y, dgelu, gelu_dbias;                       // of the GELU
  Tensor biased, bias_sums, placed, dtable;          // of biases and positions

  std::vector<Tensor> all() const {
    return {normed, dx, y, dgelu, biased, placed, dtable, dweight, dbias, gelu_dbias, bias_sums};
  }
};

Outputs compute_gpt2(Bench& b, const Gpt2Inputs& in) {
  const Shape& shape = in.x.shape;
  const Values zero(Shape{shape[1]});
  const Tensor x = b.put(in.x), dy = b.put(in.dy), residual = b.put(in.residual), w = b.put(in.w), bias = b.put(in.bias);
  const Tensor table = b.put(in.table);
  const auto statistics = [&] { return b.rank.poisoned({shape[0]}, DType::f32); };
  const Outputs out{.mean = statistics(),
                    .inv_std = statistics(),
                    .normed = b.poisoned(shape),
                    .dx = b.poisoned(shape),
                    .dweight = b.put_f32(zero),
                    .dbias = b.put_f32(zero),
                    .y = b.poisoned(shape),
                    .dgelu = b.poisoned(shape),
                    .gelu_dbias = b.put_f32(zero),
                    .biased = b.put(in.x),
                    .bias_sums = b.put_f32(zero),
                    .placed = b.put(in.x),
                    .dtable = b.put_f32(Values(in.table.shape))};
  b.team.run([&](TestRank& r) {
    Ops& ops = r.ops();
    ops.layer_norm(
        {.x = x, .weight = w, .bias = bias, .eps = 1e-5F, .y = out.normed, .mean = out.mean, .inv_std = out.inv_std});
    ops.layer_norm_backward({.dy = dy,
                             .x = x,
                             .weight = w,
                             .mean = out.mean,
                             .inv_std = out.inv_std,
                             .residual = residual,
                             .dx = out.dx,
                             .dweight = out.dweight,
                             .dbias = out.dbias});
    ops.gelu(x, bias, out.y);
    ops.gelu_backward({.dy = dy, .x = x, .bias = bias, .dx = out.dgelu, .dbias = out.gelu_dbias});
    ops.add_bias(out.biased, bias);
    ops.bias_grad(dy, out.bias_sums);
    ops.add_positions({.first_token = first_token, .sequence = in.sequence, .table = table, .x = out.placed});
    ops.positions_grad({.first_token = first_token, .sequence = in.sequence, .dy = dy, .dtable = out.dtable});
  });
  return out;
}

void check(Bench& b, const Gpt2Inputs& in, const Outputs& out) {
  const auto error = [&](const Tensor& got, const Values& expected) { return relative_error(b.rank.get(got), expected); };
  const auto forward = reference::layer_norm(in.x, in.w, in.bias, 1e-5);
  const auto grads = reference::layer_norm_backward(in.dy, in.x, in.w, 1e-5);
  const Values gelu_grad = reference::gelu_backward(in.dy, in.x, in.bias);
  CHECK(error(out.normed, forward.y) < b.tolerance);
  CHECK(error(out.inv_std, forward.inv_std) < statistics_tolerance);
  CHECK(error(out.dx, plus(grads.dx, in.residual)) < b.tolerance);
  CHECK(error(out.dweight, grads.dweight) < statistics_tolerance);
  CHECK(error(out.dbias, grads.dbias) < statistics_tolerance);
  CHECK(error(out.y, reference::gelu(in.x, in.bias)) < b.tolerance);
  CHECK(error(out.dgelu, gelu_grad) < b.tolerance);
  CHECK(error(out.gelu_dbias, reference::column_sums(gelu_grad)) < statistics_tolerance);
  CHECK(error(out.biased, reference::add_bias(in.x, in.bias)) < b.tolerance);
  CHECK(error(out.bias_sums, reference::column_sums(in.dy)) < statistics_tolerance);
  CHECK(error(out.placed, reference::add_positions(first_token, in.sequence, in.table, in.x)) < b.tolerance);
  CHECK(error(out.dtable, reference::positions_grad({first_token, in.sequence, in.sequence}, in.dy)) < statistics_tolerance);
}

std::vector<std::vector<unsigned char>> bytes_of(Bench& b, const Outputs& out) {
  std::vector<std::vector<unsigned char>> bytes;
  for (const Tensor& one : out.all()) bytes.push_back(b.rank.bytes(one));
  return bytes;
}

TEST_CASE("GPU LayerNorm, GELU, biases and positions at full size, the same bits again", "[gpu]") {
  if (ops_backends().size() < 2) {
    test::needs_gpus(0);
    return;
  }
  on_every_backend([](Bench& b) {
    if (b.rank.device().id().kind != DeviceKind::cuda) return;
    for (const Shape& shape : {Shape{2000, 1600}, Shape{4096, 768}, Shape{301, 8192}, Shape{65, 16384}, Shape{1030, 3001}}) {
      INFO(to_string(shape));
      const Gpt2Inputs in(b, shape);
      const Outputs out = compute_gpt2(b, in);
      check(b, in, out);
      CHECK((bytes_of(b, compute_gpt2(b, in)) == bytes_of(b, out)));
    }
  });
}

}  // namespace
}  // namespace pipetrain::testing
