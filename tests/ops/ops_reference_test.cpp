// The reference's gradients compared with central differences of its forward functions, since the reference for the
// backends must itself be right.
#include <functional>
#include <random>

#include "catch.hpp"
#include "ops/ops_reference.hpp"

namespace pipetrain::testing {
namespace {

// d(sum of weights * f(x)) / dx by central differences.
Values numeric_gradient(const std::function<Values(const Values&)>& f, Values x, const Values& weights) {
  constexpr double step = 1e-5;
  const auto weighted = [&](const Values& at) {
    const Values y = f(at);
    double sum = 0;
    for (std::size_t i = 0; i < y.data.size(); ++i) sum += y.data[i] * weights.data[i];
    return sum;
  };
  Values gradient(x.shape);
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    const double at = x.data[i];
    x.data[i] = at + step;
    const double above = weighted(x);
    x.data[i] = at - step;
    gradient.data[i] = (above - weighted(x)) / (2 * step);
    x.data[i] = at;
  }
  return gradient;
}

constexpr double tolerance = 1e-7;

std::mt19937_64 numbers(7);
Values draw(const Shape& shape) { return random_values(shape, numbers, DType::f64); }

TEST_CASE("the reference's gradients of matrices and norms agree with central differences", "[ops]") {
  SECTION("matrix products") {
    const Values x = draw({3, 5}), w = draw({4, 5}), dy = draw({3, 4});
    const auto of_x = [&](const Values& v) { return reference::matmul(MatmulKind::forward, v, w); };
    const auto of_w = [&](const Values& v) { return reference::matmul(MatmulKind::forward, x, v); };
    CHECK(relative_error(reference::matmul(MatmulKind::input_grad, dy, w), numeric_gradient(of_x, x, dy)) < tolerance);
    CHECK(relative_error(reference::weight_grad(dy, x), numeric_gradient(of_w, w, dy)) < tolerance);
  }
  SECTION("embedding") {
    const Values ids = random_ids(6, 0, 4, numbers), table = draw({4, 3}), dy = draw({6, 3});
    const auto of_table = [&](const Values& v) { return reference::embedding(ids, v); };
    CHECK(relative_error(reference::embedding_grad(ids, dy, 4), numeric_gradient(of_table, table, dy)) < tolerance);
  }
  SECTION("RMSNorm") {
    const Values x = draw({3, 6}), w = draw({6}), dy = draw({3, 6});
    const auto grads = reference::rms_norm_backward(dy, x, w, 1e-2);
    const auto of_x = [&](const Values& v) { return reference::rms_norm(v, w, 1e-2).y; };
    const auto of_w = [&](const Values& v) { return reference::rms_norm(x, v, 1e-2).y; };
    CHECK(relative_error(grads.dx, numeric_gradient(of_x, x, dy)) < tolerance);
    CHECK(relative_error(grads.dweight, numeric_gradient(of_w, w, dy)) < tolerance);
  }
  SECTION("LayerNorm") {
    const Values x = draw({3, 6}), w = draw({6}), bias = draw({6}), dy = draw({3, 6});
    const auto grads = reference::layer_norm_backward(dy, x, w, 1e-2);
    const auto of_x = [&](const Values& v) { return reference::layer_norm(v, w, bias, 1e-2).y; };
    const auto of_w = [&](const Values& v) { return reference::layer_norm(x, v, bias, 1e-2).y; };
    const auto of_bias = [&](const Values& v) { return reference::layer_norm(x, w, v, 1e-2).y; };
    CHECK(relative_error(grads.dx, numeric_gradient(of_x, x, dy)) < tolerance);
    CHECK(relative_error(grads.dweight, numeric_gradient(of_w, w, dy)) < tolerance);
    CHECK(relative_error(grads.dbias, numeric_gradient(of_bias, bias, dy)) < tolerance);
  }
}

TEST_CASE("the reference's gradients of activations and positions agree with central differences", "[ops]") {
  SECTION("GELU with its bias") {
    const Values x = draw({3, 5}), bias = draw({5}), dy = draw({3, 5});
    const Values dx = reference::gelu_backward(dy, x, bias);
    const auto of_x = [&](const Values& v) { return reference::gelu(v, bias); };
    const auto of_bias = [&](const Values& v) { return reference::gelu(x, v); };
    CHECK(relative_error(dx, numeric_gradient(of_x, x, dy)) < tolerance);
    CHECK(relative_error(reference::column_sums(dx), numeric_gradient(of_bias, bias, dy)) < tolerance);
    Values one(Shape{1, 1}), none(Shape{1});
    one.data[0] = 1;
    CHECK(reference::gelu(one, none).data[0] == Approx(0.8411919906));  // Hugging Face's gelu_new(1)
  }
  SECTION("learned positions") {
    const Values x = draw({7, 3}), table = draw({5, 3}), dy = draw({7, 3});
    const auto of_table = [&](const Values& v) { return reference::add_positions(2, 4, v, x); };
    CHECK(relative_error(reference::positions_grad({2, 4, 5}, dy), numeric_gradient(of_table, table, dy)) < tolerance);
  }
  SECTION("rotary embedding") {
    const SegmentShape shape = whole_sequences(2, 3, {2, 1, 4});
    const Values qkv = draw({shape.tokens(), shape.packed_cols()}), dy = draw(qkv.shape);
    const Values table = reference::rotary_table(shape.queries, shape.head_dim, 100);
    const auto of_qkv = [&](const Values& v) { return reference::rotary(shape, v, table, false); };
    CHECK(relative_error(reference::rotary(shape, dy, table, true), numeric_gradient(of_qkv, qkv, dy)) < tolerance);
  }
  SECTION("SwiGLU") {
    const Values gate_up = draw({3, 8}), dy = draw({3, 4});
    CHECK(relative_error(reference::swiglu_backward(dy, gate_up), numeric_gradient(reference::swiglu, gate_up, dy)) <
          tolerance);
  }
  SECTION("SwiGLU with weights") {
    const Values gate_up = draw({3, 8}), weights = draw({3}), dy = draw({3, 4});
    const auto found = reference::weighed_swiglu_backward(dy, gate_up, weights);
    const auto of_gate_up = [&](const Values& v) { return reference::weighed_swiglu(v, weights); };
    const auto of_weights = [&](const Values& v) { return reference::weighed_swiglu(gate_up, v); };
    CHECK(relative_error(found.gate_up, numeric_gradient(of_gate_up, gate_up, dy)) < tolerance);
    CHECK(relative_error(found.weights, numeric_gradient(of_weights, weights, dy)) < tolerance);
  }
}

TEST_CASE("the reference's gradients of attention and loss agree with central differences", "[ops]") {
  SECTION("attention") {
    const SegmentShape shape = whole_sequences(2, 5, {4, 2, 3});
    const Values qkv = draw({shape.tokens(), shape.packed_cols()}), dout = draw({shape.tokens(), shape.heads * shape.head_dim});
    const auto of_qkv = [&](const Values& v) { return reference::attention(shape, v).out; };
    CHECK(relative_error(reference::attention_backward(shape, dout, qkv), numeric_gradient(of_qkv, qkv, dout)) < tolerance);
  }
  SECTION("attention within documents, with dropout") {
    const SegmentShape shape = whole_sequences(2, 5, {4, 2, 3});
    const Values qkv = draw({shape.tokens(), shape.packed_cols()}), dout = draw({shape.tokens(), shape.heads * shape.head_dim});
    reference::Sight sight{.documents = Values(Shape{10}), .dropout = {.key = {1, 2}, .dropped = 20000}};
    sight.documents.data = {0, 0, 2, 2, 2, 0, 1, 2, 2, 2};
    const auto of_qkv = [&](const Values& v) { return reference::attention(shape, v, sight).out; };
    CHECK(relative_error(reference::attention_backward(shape, dout, qkv, sight), numeric_gradient(of_qkv, qkv, dout)) <
          tolerance);
  }
  SECTION("cross-entropy") {
    const Values logits = draw({5, 7}), targets = random_ids(5, -1, 7, numbers);
    Values scale(Shape{1});
    scale.data[0] = 0.3;
    const auto of_logits = [&](const Values& v) {
      Values loss(Shape{1});
      loss.data[0] = reference::cross_entropy(v, targets).loss_sum;
      return loss;
    };
    const Values gradient = reference::cross_entropy_backward(logits, targets, 0.3);
    CHECK(relative_error(gradient, numeric_gradient(of_logits, logits, scale)) < tolerance);
  }
}

}  // namespace
}  // namespace pipetrain::testing
