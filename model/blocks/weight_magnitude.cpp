#include "model/blocks/weight_magnitude.hpp"

#include "model/config/adapter_roles.hpp"

namespace pipetrain {
namespace {

Tensor zeros(const BlockContext& context, std::int64_t count) {
  const Tensor made = context.workspace.allocate({count}, DType::f32);
  context.ops.zero(made);
  return made;
}

// y = x * factors, column by column: a norm of rows whose mean square is 1. `ones` [R] f32 becomes the rows' factors of 1.
void scale_columns(const BlockContext& context, const Tensor& x, const Tensor& factors, const Tensor& y, const Tensor& ones) {
  const ArenaScope scope(context.workspace);
  context.ops.split_norm(
      {.x = x, .weight = factors, .square_sums = zeros(context, x.rows()), .columns = 1, .eps = 1, .y = y, .inv_rms = ones});
}

// roots [N] f32 = 1 / sqrt(squares + eps): the factors of rows of one column in a norm, whose result is not read.
void inverse_roots(const BlockContext& context, const Tensor& squares, float eps, const Tensor& roots) {
  const ArenaScope scope(context.workspace);
  const std::int64_t count = squares.elements();
  context.ops.split_norm({.x = squares.reshaped({count, 1}),
                          .weight = squares.row_range(0, 1),
                          .square_sums = squares,
                          .columns = 1,
                          .eps = eps,
                          .y = context.workspace.allocate({count, 1}, DType::f32),
                          .inv_rms = roots});
}

// product = a * b, for vectors [N] f32.
void multiply_vectors(const BlockContext& context, const Tensor& a, const Tensor& b, const Tensor& product) {
  const ArenaScope scope(context.workspace);
  const Shape row{1, a.elements()};
  scale_columns(context, a.reshaped(row), b, product.reshaped(row), context.workspace.allocate({1}, DType::f32));
}

}  // namespace

std::optional<WeightMagnitude> WeightMagnitude::of(const ModelConfig& config, TensorRole matrix) {
  const auto roles = adapter_roles(matrix);
  return config.adapter.magnitudes && roles ? std::optional(WeightMagnitude(roles->magnitude.value())) : std::nullopt;
}

void WeightMagnitude::reserve(const BlockContext& context, const Shape& product, Arena& kept, Saved& saved) const {
  saved.product = kept.allocate(product, context.dtype);
  for (Tensor* const vector : {&saved.factors, &saved.inverse_norm}) *vector = kept.allocate({product[1]}, DType::f32);
  saved.ones = kept.allocate({product[0]}, DType::f32);
}

void WeightMagnitude::find_factors(const BlockContext& context, const Matrix& matrix, const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  const std::int64_t rows = saved.factors.elements();
  const Tensor merged = matrix.adapter.merged(context, matrix.weight);
  const Tensor squares = context.workspace.allocate({rows}, DType::f32);
  context.ops.row_dots({.a = merged, .b = merged, .sums = squares});
  if (matrix.inputs.size() > 1) context.ops.sum_copies({.tp = matrix.inputs, .values = squares});
  inverse_roots(context, squares, 0, saved.inverse_norm);
  inverse_roots(context, zeros(context, rows), 1, saved.factors);  // 1 for rows without adapters
  std::int64_t first = 0;
  for (const AdapterTarget& target : matrix.adapter.targets()) {
    const std::int64_t row = target.row, count = target.rows;
    const Tensor own = magnitude_.weight.row_range(first, first + count),
                 wide = context.workspace.allocate({count}, DType::f32);
    context.ops.copy_columns({.source = own.reshaped({count, 1}), .target = wide.reshaped({count, 1}), .count = 1});
    multiply_vectors(context, wide, saved.inverse_norm.row_range(row, row + count), saved.factors.row_range(row, row + count));
    first += count;
  }
}

void WeightMagnitude::forward(const BlockContext& context, const Matrix& matrix, const Saved& saved, const Tensor& y) const {
  find_factors(context, matrix, saved);
  scale_columns(context, saved.product, saved.factors, y, saved.ones);
}

Tensor WeightMagnitude::backward(const BlockContext& context, const LowRankAdapter& adapter, const Tensor& output_grad,
                                 const Saved& saved) const {
  const ArenaScope scope(context.workspace);
  const Tensor factor_grad = zeros(context, saved.factors.elements());
  context.ops.split_norm_backward({.dy = output_grad,
                                   .x = saved.product,
                                   .weight = saved.factors,
                                   .inv_rms = saved.ones,
                                   .dots = zeros(context, output_grad.rows()),
                                   .columns = 1,
                                   .dx = saved.product,
                                   .dweight = factor_grad});
  const Tensor grad = context.workspace.allocate(factor_grad.shape, DType::f32);
  multiply_vectors(context, factor_grad, saved.inverse_norm, grad);
  std::int64_t first = 0;
  for (const AdapterTarget& target : adapter.targets()) {
    context.ops.add(magnitude_.grad.row_range(first, first + target.rows),
                    grad.row_range(target.row, target.row + target.rows));
    first += target.rows;
  }
  return saved.product;
}

}  // namespace pipetrain
