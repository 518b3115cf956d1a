// Every operation of ops/ops.hpp in plain double precision, written for clarity, as the reference for the backends. One
// rank holds everything; tests cut the results for more ranks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "core/tensor.hpp"
#include "ops/ops.hpp"

namespace pipetrain::testing {

// Host numbers, row-major, whatever the device's type.
struct Values {
  Shape shape;
  std::vector<double> data;

  Values() = default;
  explicit Values(const Shape& s) : shape(s), data(static_cast<std::size_t>(s.elements()), 0.0) {}
  std::int64_t rows() const { return shape[0]; }
  std::int64_t cols() const { return rows() == 0 ? 0 : shape.elements() / rows(); }
  // Returns a pointer to the row's values from this column on, for inner loops, because each index costs a division.
  double* at(std::int64_t row, std::int64_t col) { return data.data() + row * cols() + col; }
  const double* at(std::int64_t row, std::int64_t col) const { return data.data() + row * cols() + col; }
  double& operator()(std::int64_t row, std::int64_t col) { return data[static_cast<std::size_t>(row * cols() + col)]; }
  double operator()(std::int64_t row, std::int64_t col) const { return data[static_cast<std::size_t>(row * cols() + col)]; }
};

// Returns the value as the type stores it. A test's inputs must be representable, or the comparison would measure their
// rounding.
double rounded(double value, DType dtype);
Values rounded(Values values, DType dtype);
// Normal(0, deviation), rounded to dtype.
Values random_values(const Shape& shape, std::mt19937_64& random, DType dtype, double deviation = 1.0);
// Uniform integers in [low, high).
Values random_ids(std::int64_t count, std::int64_t low, std::int64_t high, std::mt19937_64& random);

Values row_range(const Values& values, std::int64_t begin, std::int64_t end);
Values col_range(const Values& values, std::int64_t begin, std::int64_t end);
Values plus(Values a, const Values& b);
Values scaled(Values a, double factor);

// ||actual - expected|| / ||expected|| (Frobenius); infinite if an element is not finite or the shapes differ.
double relative_error(const Values& actual, const Values& expected);

namespace reference {

Values matmul(MatmulKind kind, const Values& x, const Values& w);
Values weight_grad(const Values& dy, const Values& x);

Values embedding(const Values& ids, const Values& table);
Values embedding_grad(const Values& ids, const Values& dy, std::int64_t vocabulary);

struct RmsNorm {
  Values y, inv_rms;
};
RmsNorm rms_norm(const Values& x, const Values& weight, double eps);
struct RmsNormGrads {
  Values dx, dweight;
};
RmsNormGrads rms_norm_backward(const Values& dy, const Values& x, const Values& weight, double eps);

struct LayerNorm {
  Values y, mean, inv_std;
};
LayerNorm layer_norm(const Values& x, const Values& weight, const Values& bias, double eps);
struct LayerNormGrads {
  Values dx, dweight, dbias;
};
LayerNormGrads layer_norm_backward(const Values& dy, const Values& x, const Values& weight, double eps);

Values gelu(const Values& x, const Values& bias);
Values gelu_backward(const Values& dy, const Values& x, const Values& bias);  // for x; its column sums are the bias's
Values add_bias(Values x, const Values& bias);
Values column_sums(const Values& x);
// documents: as in ops/arguments/positions.hpp, here and below; without data if a sequence is one document.
Values add_positions(std::int64_t first_token, std::int64_t sequence, const Values& table, Values x,
                     const Values& documents = {});
struct PositionsShape {
  std::int64_t first_token, sequence, positions;
};
Values positions_grad(const PositionsShape& shape, const Values& dy, const Values& documents = {});

// The indices of an element, which determine its dropout factor.
struct DropoutIndex {
  std::int64_t sample, row, column, plane;  // of the microbatch and the rank
};
double dropout_factor(const Dropout& dropout, const DropoutIndex& place);
Values dropout(const Dropout& dropout, std::int64_t first_token, std::int64_t sequence, Values x);

// [sequence, 2, head_dim / 2] cosines and sines of position * theta^(-2i/D).
Values rotary_table(std::int64_t sequence, std::int64_t head_dim, double theta);
Values rotary(const SegmentShape& shape, Values qkv, const Values& cos_sin, bool inverse, const Values& documents = {});

Values swiglu(const Values& gate_up);
Values swiglu_backward(const Values& dy, const Values& gate_up);

// weights [T]: a factor of each row of swiglu's result.
Values weighed_swiglu(const Values& gate_up, const Values& weights);
struct WeighedSwigluGrads {
  Values gate_up, weights;
};
WeighedSwigluGrads weighed_swiglu_backward(const Values& dy, const Values& gate_up, const Values& weights);

struct Attention {
  Values out, log_sum_exp;
};
struct Sight {
  Values documents = {};
  Dropout dropout = {};
};
Attention attention(const SegmentShape& shape, const Values& qkv, const Sight& sight = {});
Values attention_backward(const SegmentShape& shape, const Values& dout, const Values& qkv, const Sight& sight = {});

struct CrossEntropy {
  double loss_sum = 0;
  Values log_sum_exp;
};
CrossEntropy cross_entropy(const Values& logits, const Values& targets);
Values cross_entropy_backward(const Values& logits, const Values& targets, double scale);

// Works in place.
void adamw(Values& weight, const Values& grad, Values& m, Values& v, const AdamW& settings);
// Returns the averages whose signs are the update.
Values lion(Values& weight, const Values& grad, Values& m, const Lion& settings);
double square_sum(const Values& values);

}  // namespace reference
}  // namespace pipetrain::testing
