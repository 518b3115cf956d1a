// An RMSNorm whose rows several ranks hold in parts: two parts together give the norm of whole rows.
#include <array>
#include <vector>

#include "ops/ops_bench.hpp"

namespace pipetrain::testing {
namespace {

Values columns_of(const Values& all, std::int64_t begin, std::int64_t count) {
  const bool is_vector = all.shape.rank() == 1;
  const std::int64_t rows = is_vector ? 1 : all.shape[0], cols = is_vector ? all.shape[0] : all.shape[1];
  Values some(is_vector ? Shape{count} : Shape{rows, count});
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t i = 0; i < count; ++i)
      some.data[static_cast<std::size_t>(row * count + i)] = all.data[static_cast<std::size_t>(row * cols + begin + i)];
  return some;
}

// One rank's columns.
struct Part {
  std::int64_t begin, count;
  Tensor x, w, dy, y, dx, inv_rms, squares, dots, dweight;

  Part(Bench& b, std::int64_t first, std::int64_t columns, const Values& all_x, const Values& all_w, const Values& all_dy)
      : begin(first), count(columns) {
    const std::int64_t rows = all_x.shape[0];
    x = b.put(columns_of(all_x, begin, count)), w = b.put(columns_of(all_w, begin, count));
    dy = b.put(columns_of(all_dy, begin, count));
    y = b.poisoned({rows, count}), dx = b.poisoned({rows, count});
    for (Tensor* const sums : {&inv_rms, &squares, &dots}) *sums = b.rank.poisoned({rows}, DType::f32);
    dweight = b.put_f32(Values(Shape{count}));
  }
};

TEST_CASE("an RMSNorm of rows that several ranks share is that of whole rows", "[ops]") {
  on_every_backend([](Bench& b) {
    for (const auto& [rows, first, second] : std::vector<std::array<std::int64_t, 3>>{{1, 8, 8}, {5, 31, 3}, {77, 64, 200}}) {
      const std::int64_t columns = first + second;
      INFO(rows << " rows of " << first << " + " << second);
      const Values x = b.draw({rows, columns}), w = b.draw({columns}), dy = b.draw({rows, columns});
      Part parts[] = {Part(b, 0, first, x, w, dy), Part(b, first, second, x, w, dy)};
      b.team.run([&](TestRank& r) {
        for (const Part& part : parts) {
          r.ops().row_dots({.a = part.x, .b = part.x, .sums = part.squares});
          r.ops().row_dots({.a = part.dy, .b = part.x, .weight = part.w, .sums = part.dots});
        }
        r.ops().add(parts[0].squares, parts[1].squares);
        r.ops().add(parts[0].dots, parts[1].dots);
        for (const Part& part : parts) {
          r.ops().split_norm({.x = part.x,
                              .weight = part.w,
                              .square_sums = parts[0].squares,
                              .columns = columns,
                              .eps = 1e-5F,
                              .y = part.y,
                              .inv_rms = part.inv_rms});
          r.ops().split_norm_backward({.dy = part.dy,
                                       .x = part.x,
                                       .weight = part.w,
                                       .inv_rms = part.inv_rms,
                                       .dots = parts[0].dots,
                                       .columns = columns,
                                       .dx = part.dx,
                                       .dweight = part.dweight});
        }
      });
      const Values y = reference::rms_norm(x, w, 1e-5).y;
      const auto grads = reference::rms_norm_backward(dy, x, w, 1e-5);
      for (const Part& part : parts) {
        const auto own = [&](const Values& all) { return columns_of(all, part.begin, part.count); };
        CHECK(relative_error(b.rank.get(part.y), own(y)) < b.tolerance);
        CHECK(relative_error(b.rank.get(part.dx), own(grads.dx)) < b.tolerance);
        CHECK(relative_error(b.rank.get(part.dweight), own(grads.dweight)) < statistics_tolerance);
      }
    }
  });
}

TEST_CASE("rows are scaled by an exact factor, with a residual", "[ops]") {
  on_every_backend([](Bench& b) {
    constexpr float factor = 0.22F;  // in no 16-bit type
    const Values x = b.draw({9, 40}), residual = b.draw({9, 40});
    Values expected = x;
    for (std::size_t i = 0; i < x.data.size(); ++i) expected.data[i] = x.data[i] * factor + residual.data[i];
    const Tensor tx = b.put(x), tr = b.put(residual), out = b.poisoned(x.shape);
    b.team.run([&](TestRank& r) {
      r.ops().scale({.x = tx, .out = out, .factor = factor, .exact = true, .residual = tr});
      r.ops().scale({.x = tx, .out = tx, .factor = factor, .exact = true, .residual = tr});
    });
    CHECK(relative_error(b.rank.get(out), expected) < b.tolerance);
    CHECK(b.rank.bytes(out) == b.rank.bytes(tx));
  });
}

}  // namespace
}  // namespace pipetrain::testing
