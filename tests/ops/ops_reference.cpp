#include "ops_reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fp8.hpp"
#include "half.hpp"

namespace pipetrain::testing {
namespace {

std::int64_t id_at(const Values& ids, std::int64_t i) {
  return static_cast<std::int64_t>(ids.data[static_cast<std::size_t>(i)]);
}

double round_to_bf16(double value) {
  // Rounds through float: double rounding differs from a direct rounding only in ties, and values here need only be
  // representable.
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  const std::uint32_t upper = (bits + 0x7FFFU + ((bits >> 16) & 1U)) & 0xFFFF0000U;
  return std::bit_cast<float>(upper);
}

}  // namespace

double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return static_cast<float>(value);
    case DType::bf16:
      return round_to_bf16(value);
    case DType::f16:
      return test::from_half(test::to_half(static_cast<float>(value)));
    case DType::f64:
      return value;
    case DType::i32:
      return std::nearbyint(value);
    case DType::e4m3:
    case DType::e5m2:
      return test::round_to_fp8(value, dtype);
  }
  return value;
}

Values rounded(Values values, DType dtype) {
  for (double& value : values.data) value = rounded(value, dtype);
  return values;
}

Values random_values(const Shape& shape, std::mt19937_64& random, DType dtype, double deviation) {
  std::normal_distribution<double> normal(0.0, deviation);
  Values values(shape);
  for (double& value : values.data) value = rounded(normal(random), dtype);
  return values;
}

Values random_ids(std::int64_t count, std::int64_t low, std::int64_t high, std::mt19937_64& random) {
  std::uniform_int_distribution<std::int64_t> uniform(low, high - 1);
  Values values(Shape{count});
  for (double& value : values.data) value = static_cast<double>(uniform(random));
  return values;
}

Values row_range(const Values& values, std::int64_t begin, std::int64_t end) {
  Values part(values.shape.rank() == 1 ? Shape{end - begin} : Shape{end - begin, values.cols()});
  const auto cols = values.cols();
  std::copy(values.data.begin() + begin * cols, values.data.begin() + end * cols, part.data.begin());
  return part;
}

Values col_range(const Values& values, std::int64_t begin, std::int64_t end) {
  Values part(Shape{values.rows(), end - begin});
  for (std::int64_t r = 0; r < values.rows(); ++r) {
    for (std::int64_t c = begin; c < end; ++c) part(r, c - begin) = values(r, c);
  }
  return part;
}

Values plus(Values a, const Values& b) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] += b.data[i];
  return a;
}

Values scaled(Values a, double factor) {
  for (double& value : a.data) value *= factor;
  return a;
}

double relative_error(const Values& actual, const Values& expected) {
  if (actual.shape.elements() != expected.shape.elements()) return std::numeric_limits<double>::infinity();
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.data.size(); ++i) {
    if (!std::isfinite(actual.data[i])) return std::numeric_limits<double>::infinity();
    difference += (actual.data[i] - expected.data[i]) * (actual.data[i] - expected.data[i]);
    norm += expected.data[i] * expected.data[i];
  }
  if (difference == 0) return 0;
  return std::sqrt(difference / norm);  // infinite if zeros were expected
}

namespace reference {

Values matmul(MatmulKind kind, const Values& x, const Values& w) {
  const bool forward = kind == MatmulKind::forward;
  const std::int64_t inner = x.cols(), outer = forward ? w.rows() : w.cols();
  Values y(Shape{x.rows(), outer});
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    for (std::int64_t o = 0; o < outer; ++o) {
      double sum = 0;
      for (std::int64_t i = 0; i < inner; ++i) sum += x(t, i) * (forward ? w(o, i) : w(i, o));
      y(t, o) = sum;
    }
  }
  return y;
}

Values weight_grad(const Values& dy, const Values& x) {
  Values dw(Shape{dy.cols(), x.cols()});
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    for (std::int64_t n = 0; n < dy.cols(); ++n) {
      for (std::int64_t k = 0; k < x.cols(); ++k) dw(n, k) += dy(t, n) * x(t, k);
    }
  }
  return dw;
}

Values embedding(const Values& ids, const Values& table) {
  Values out(Shape{ids.rows(), table.cols()});
  for (std::int64_t t = 0; t < ids.rows(); ++t) {
    for (std::int64_t h = 0; h < table.cols(); ++h) out(t, h) = table(id_at(ids, t), h);
  }
  return out;
}

Values embedding_grad(const Values& ids, const Values& dy, std::int64_t vocabulary) {
  Values dtable(Shape{vocabulary, dy.cols()});
  for (std::int64_t t = 0; t < ids.rows(); ++t) {
    for (std::int64_t h = 0; h < dy.cols(); ++h) dtable(id_at(ids, t), h) += dy(t, h);
  }
  return dtable;
}

RmsNorm rms_norm(const Values& x, const Values& weight, double eps) {
  RmsNorm result{Values(x.shape), Values(Shape{x.rows()})};
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    double squares = 0;
    for (std::int64_t h = 0; h < x.cols(); ++h) squares += x(t, h) * x(t, h);
    const double inv_rms = 1 / std::sqrt(squares / static_cast<double>(x.cols()) + eps);
    result.inv_rms.data[static_cast<std::size_t>(t)] = inv_rms;
    for (std::int64_t h = 0; h < x.cols(); ++h) {
      result.y(t, h) = x(t, h) * inv_rms * weight.data[static_cast<std::size_t>(h)];
    }
  }
  return result;
}

RmsNormGrads rms_norm_backward(const Values& dy, const Values& x, const Values& weight, double eps) {
  const Values inv_rms = rms_norm(x, weight, eps).inv_rms;
  RmsNormGrads grads{Values(x.shape), Values(weight.shape)};
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    const double r = inv_rms.data[static_cast<std::size_t>(t)];
    double dot = 0;  // of dy * weight and x
    for (std::int64_t h = 0; h < x.cols(); ++h) dot += dy(t, h) * weight.data[static_cast<std::size_t>(h)] * x(t, h);
    for (std::int64_t h = 0; h < x.cols(); ++h) {
      const double scaled_dy = dy(t, h) * weight.data[static_cast<std::size_t>(h)];
      grads.dx(t, h) = r * (scaled_dy - x(t, h) * r * r * dot / static_cast<double>(x.cols()));
      grads.dweight.data[static_cast<std::size_t>(h)] += dy(t, h) * x(t, h) * r;
    }
  }
  return grads;
}

Values swiglu(const Values& gate_up) {
  const std::int64_t inner = gate_up.cols() / 2;
  Values y(Shape{gate_up.rows(), inner});
  for (std::int64_t t = 0; t < y.rows(); ++t) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const double gate = gate_up(t, i);
      y(t, i) = gate / (1 + std::exp(-gate)) * gate_up(t, inner + i);
    }
  }
  return y;
}

Values swiglu_backward(const Values& dy, const Values& gate_up) {
  const std::int64_t inner = dy.cols();
  Values grad(gate_up.shape);
  for (std::int64_t t = 0; t < dy.rows(); ++t) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const double gate = gate_up(t, i), up = gate_up(t, inner + i), sigmoid = 1 / (1 + std::exp(-gate));
      grad(t, i) = dy(t, i) * up * sigmoid * (1 + gate * (1 - sigmoid));
      grad(t, inner + i) = dy(t, i) * gate * sigmoid;
    }
  }
  return grad;
}

Values weighed_swiglu(const Values& gate_up, const Values& weights) {
  Values y = swiglu(gate_up);
  for (std::int64_t t = 0; t < y.rows(); ++t)
    for (std::int64_t i = 0; i < y.cols(); ++i) y(t, i) *= weights.data[static_cast<std::size_t>(t)];
  return y;
}

WeighedSwigluGrads weighed_swiglu_backward(const Values& dy, const Values& gate_up, const Values& weights) {
  const Values y = swiglu(gate_up);
  Values value_grad(dy.shape), of_weights(weights.shape);
  for (std::int64_t t = 0; t < dy.rows(); ++t) {
    for (std::int64_t i = 0; i < dy.cols(); ++i) {
      value_grad(t, i) = weights.data[static_cast<std::size_t>(t)] * dy(t, i);
      of_weights.data[static_cast<std::size_t>(t)] += dy(t, i) * y(t, i);
    }
  }
  return {swiglu_backward(value_grad, gate_up), of_weights};
}

CrossEntropy cross_entropy(const Values& logits, const Values& targets) {
  CrossEntropy result;
  result.log_sum_exp = Values(Shape{logits.rows()});
  for (std::int64_t t = 0; t < logits.rows(); ++t) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t v = 0; v < logits.cols(); ++v) largest = std::max(largest, logits(t, v));
    for (std::int64_t v = 0; v < logits.cols(); ++v) sum += std::exp(logits(t, v) - largest);
    const double log_sum_exp = largest + std::log(sum);
    result.log_sum_exp.data[static_cast<std::size_t>(t)] = log_sum_exp;
    if (id_at(targets, t) >= 0) result.loss_sum += log_sum_exp - logits(t, id_at(targets, t));
  }
  return result;
}

Values cross_entropy_backward(const Values& logits, const Values& targets, double scale) {
  const CrossEntropy forward = cross_entropy(logits, targets);
  Values grad(logits.shape);
  for (std::int64_t t = 0; t < logits.rows(); ++t) {
    if (id_at(targets, t) < 0) continue;
    for (std::int64_t v = 0; v < logits.cols(); ++v) {
      grad(t, v) = scale * std::exp(logits(t, v) - forward.log_sum_exp.data[static_cast<std::size_t>(t)]);
    }
    grad(t, id_at(targets, t)) -= scale;
  }
  return grad;
}

void adamw(Values& weight, const Values& grad, Values& m, Values& v, const AdamW& settings) {
  const double lr = settings.lr, beta1 = settings.beta1, beta2 = settings.beta2;
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(settings.step));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(settings.step));
  for (std::size_t i = 0; i < weight.data.size(); ++i) {
    const double g = grad.data[i] * settings.grad_scale;
    m.data[i] = beta1 * m.data[i] + (1 - beta1) * g;
    v.data[i] = beta2 * v.data[i] + (1 - beta2) * g * g;
    const double denominator = std::sqrt(v.data[i] / correction2) + settings.eps;
    weight.data[i] -= lr * (settings.weight_decay * weight.data[i] + m.data[i] / correction1 / denominator);
  }
}

Values lion(Values& weight, const Values& grad, Values& m, const Lion& settings) {
  const double lr = settings.lr, beta1 = settings.beta1, beta2 = settings.beta2;
  Values mean(weight.shape);
  for (std::size_t i = 0; i < weight.data.size(); ++i) {
    const double g = grad.data[i] * settings.grad_scale;
    mean.data[i] = beta1 * m.data[i] + (1 - beta1) * g;
    m.data[i] = beta2 * m.data[i] + (1 - beta2) * g;
    const double sign = mean.data[i] > 0 ? 1 : mean.data[i] < 0 ? -1 : 0;
    weight.data[i] -= lr * (settings.weight_decay * weight.data[i] + sign);
  }
  return mean;
}

double square_sum(const Values& values) {
  double sum = 0;
  for (double value : values.data) sum += value * value;
  return sum;
}

}  // namespace reference
}  // namespace pipetrain::testing
