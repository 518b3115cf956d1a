// Gated units whose rows have weights: against double precision, and to the bit against the operations that they replace.
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

const std::vector<std::pair<GateKind, GateClamps>> units{
    {GateKind::silu, {}}, {GateKind::gelu, {}}, {GateKind::clamped, {.alpha = 1.7F, .limit = 0.8F}}};

// Odd columns, fewer than a warp has lanes, and more than a GPU's warp takes at once.
const std::vector<Shape> shapes{{1, 1}, {7, 19}, {64, 96}, {5, 2312}, {11, 333}};

// Returns the sum of a row of dy times y as the backend adds it: CPUs one element after the other in double precision, GPUs 32
// partial sums of neighbouring elements that a thread reads at once.
float row_product(const Bench& b, const double* dy, const double* y, std::int64_t cols) {
  double in_order = 0;
  for (std::int64_t i = 0; i < cols; ++i) in_order += dy[i] * y[i];
  if (on_cpu(b)) return static_cast<float>(in_order);
  const bool precise = b.dtype == DType::f32;
  const auto full = static_cast<std::int64_t>(16 / size_of(b.dtype)), width = cols % full == 0 ? full : 1;
  const auto add = [&](double x, double z) { return precise ? x + z : static_cast<double>(static_cast<float>(x + z)); };
  std::vector<double> lanes(32);
  for (std::int64_t i = 0; i < cols; ++i) {
    double& lane = lanes[static_cast<std::size_t>(i / width % 32)];
    lane = add(lane, dy[i] * y[i]);
  }
  for (std::size_t step = 16; step > 0; step /= 2)
    for (std::size_t i = 0; i < step; ++i) lanes[i] = add(lanes[i], lanes[i + step]);
  return static_cast<float>(lanes[0]);
}

struct WeighedInputs {
  Tensor gate_up, dy, weights, addend;
};

void check_bits(Bench& b, const Shape& shape, GateKind gate, const GateClamps& clamps) {
  const Shape wide{shape[0], 2 * shape[1]}, rows{shape[0]};
  const WeighedInputs in{b.put(b.draw(wide, 1.5)), b.put(b.draw(shape)), b.put_f32(b.draw_f32(rows)), {}};
  const Tensor value = b.poisoned(shape), y = b.poisoned(shape), value_grad = b.poisoned(shape), grad = b.poisoned(wide),
               fused_y = b.poisoned(shape), fused = b.poisoned(wide), dweights = b.rank.poisoned(rows, DType::f32);
  b.team.run([&](TestRank& r) {
    Ops& ops = r.ops();
    ops.swiglu({.gate_up = in.gate_up, .y = value, .gate = gate, .clamps = clamps});
    ops.weigh_rows({.x = value, .weights = in.weights, .y = y});
    ops.weigh_rows({.x = in.dy, .weights = in.weights, .y = value_grad});
    ops.swiglu_backward({.dy = value_grad, .gate_up = in.gate_up, .dgate_up = grad, .gate = gate, .clamps = clamps});
    ops.swiglu({.gate_up = in.gate_up, .y = fused_y, .gate = gate, .clamps = clamps, .weights = in.weights});
    WeighedSwigluBackwardArgs args{.dy = in.dy,
                                   .gate_up = in.gate_up,
                                   .weights = in.weights,
                                   .dgate_up = fused,
                                   .dweights = dweights,
                                   .gate = gate,
                                   .clamps = clamps};
    ops.weighed_swiglu_backward(args);
    args.dgate_up = in.gate_up;
    ops.weighed_swiglu_backward(args);
  });
  CHECK((b.rank.bytes(fused_y) == b.rank.bytes(y)));
  CHECK((b.rank.bytes(fused) == b.rank.bytes(grad)));
  CHECK((b.rank.bytes(in.gate_up) == b.rank.bytes(grad)));  // in place
  const Values dy = b.rank.get(in.dy), values = b.rank.get(value), found = b.rank.get(dweights);
  for (std::int64_t row = 0; row < shape[0]; ++row)
    CHECK(static_cast<float>(found.data[static_cast<std::size_t>(row)]) ==
          row_product(b, dy.at(row, 0), values.at(row, 0), shape[1]));
}

// Returns columns [begin, end) of both halves.
Values halves(const Values& gates, const Values& ups, std::int64_t begin, std::int64_t end) {
  Values both({gates.rows(), 2 * (end - begin)});
  for (std::int64_t row = 0; row < gates.rows(); ++row) {
    std::copy(gates.at(row, begin), gates.at(row, begin) + (end - begin), both.at(row, 0));
    std::copy(ups.at(row, begin), ups.at(row, begin) + (end - begin), both.at(row, end - begin));
  }
  return both;
}

void check_ranks(TestTeam& team, DType dtype, double tolerance) {
  constexpr std::int64_t rows = 9, inner = 36;
  std::mt19937_64 random(31);
  const auto draw = [&](const Shape& shape, DType type) { return random_values(shape, random, type); };
  const Values gates = draw({rows, inner}, dtype), ups = draw({rows, inner}, dtype), dy = draw({rows, inner}, dtype),
               weights = draw({rows}, DType::f32), addend = draw({rows}, DType::f32);
  std::vector<WeighedInputs> in;
  std::vector<Tensor> grads, dweights;
  for (int r = 0; r < team.size(); ++r) {
    const std::int64_t begin = RowSplit(inner, team.size()).begin(r), end = RowSplit(inner, team.size()).end(r);
    in.push_back({team[r].put(halves(gates, ups, begin, end), dtype), team[r].put(col_range(dy, begin, end), dtype),
                  team[r].put(weights, DType::f32), team[r].put(addend, DType::f32)});
    grads.push_back(team[r].poisoned({rows, 2 * (end - begin)}, dtype));
    dweights.push_back(team[r].poisoned({rows}, DType::f32));
  }
  team.run([&](TestRank& r) {
    const auto at = static_cast<std::size_t>(r.rank());
    r.ops().weighed_swiglu_backward({.tp = r.tp(false),
                                     .dy = in[at].dy,
                                     .gate_up = in[at].gate_up,
                                     .weights = in[at].weights,
                                     .dgate_up = grads[at],
                                     .dweights = dweights[at],
                                     .addend = in[at].addend});
  });
  Values expected = reference::weighed_swiglu_backward(dy, halves(gates, ups, 0, inner), weights).weights;
  for (std::size_t row = 0; row < addend.data.size(); ++row) expected.data[row] += team.size() * addend.data[row];
  for (int r = 0; r < team.size(); ++r)
    CHECK(relative_error(team[r].get(dweights[static_cast<std::size_t>(r)]), expected) < tolerance);
}

}  // namespace

TEST_CASE("SwiGLU with weights and its gradients match the reference", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    for (const Shape& shape : shapes) {
      INFO(to_string(shape));
      const Shape rows{shape[0]};
      const Values gate_up = b.draw({shape[0], 2 * shape[1]}), dy = b.draw(shape), weights = b.draw_f32(rows),
                   addend = b.draw_f32(rows);
      const Tensor both = b.put(gate_up), grad = b.put(dy), factors = b.put_f32(weights), added = b.put_f32(addend),
                   y = b.poisoned(shape), found = b.poisoned(gate_up.shape), dweights = b.rank.poisoned(rows, DType::f32);
      b.team.run([&](TestRank& r) {
        r.ops().swiglu({.gate_up = both, .y = y, .weights = factors});
        r.ops().weighed_swiglu_backward(
            {.dy = grad, .gate_up = both, .weights = factors, .dgate_up = found, .dweights = dweights, .addend = added});
      });
      auto expected = reference::weighed_swiglu_backward(dy, gate_up, weights);
      for (std::size_t row = 0; row < addend.data.size(); ++row) expected.weights.data[row] += addend.data[row];
      CHECK(relative_error(b.rank.get(y), reference::weighed_swiglu(gate_up, weights)) < b.tolerance);
      CHECK(relative_error(b.rank.get(found), expected.gate_up) < b.tolerance);
      CHECK(relative_error(b.rank.get(dweights), expected.weights) < b.tolerance);
    }
  });
}

TEST_CASE("gated units with weights have the bits of separate operations", "[ops][experts]") {
  on_every_backend([](Bench& b) {
    for (const auto& [gate, clamps] : units)
      for (const Shape& shape : shapes) {
        INFO(to_string(shape) << ", unit " << static_cast<int>(gate));
        check_bits(b, shape, gate, clamps);
      }
  });
}

TEST_CASE("the gradients of rows' weights are summed over ranks that share the columns", "[ops][experts]") {
  for (const OpsBackend* backend : ops_backends()) {
    for (const DType dtype : backend->dtypes()) {
      for (int ranks = 2; ranks <= backend->max_ranks(); ++ranks) {
        INFO(backend->name() << " " << to_string(dtype) << ", " << ranks << " ranks");
        TestTeam team(*backend, ranks);
        check_ranks(team, dtype, backend->tolerance(dtype));
      }
    }
  }
}

}  // namespace pipetrain::testing
