// GPT-2's own operations: layer norm, GELU, biases, learned positions.
#include <cmath>

#include "ops_reference.hpp"

namespace pipetrain::testing::reference {

LayerNorm layer_norm(const Values& x, const Values& weight, const Values& bias, double eps) {
  const auto count = static_cast<double>(x.cols());
  LayerNorm result{Values(x.shape), Values(Shape{x.rows()}), Values(Shape{x.rows()})};
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    double mean = 0, variance = 0;
    for (std::int64_t h = 0; h < x.cols(); ++h) mean += x(t, h) / count;
    for (std::int64_t h = 0; h < x.cols(); ++h) variance += (x(t, h) - mean) * (x(t, h) - mean) / count;
    const double inv_std = 1 / std::sqrt(variance + eps);
    result.mean.data[static_cast<std::size_t>(t)] = mean;
    result.inv_std.data[static_cast<std::size_t>(t)] = inv_std;
    for (std::int64_t h = 0; h < x.cols(); ++h) {
      const auto at = static_cast<std::size_t>(h);
      result.y(t, h) = (x(t, h) - mean) * inv_std * weight.data[at] + bias.data[at];
    }
  }
  return result;
}

LayerNormGrads layer_norm_backward(const Values& dy, const Values& x, const Values& weight, double eps) {
  const auto count = static_cast<double>(x.cols());
  const LayerNorm forward = layer_norm(x, weight, weight, eps);
  LayerNormGrads grads{Values(x.shape), Values(weight.shape), Values(weight.shape)};
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    const double mean = forward.mean.data[static_cast<std::size_t>(t)];
    const double inv_std = forward.inv_std.data[static_cast<std::size_t>(t)];
    double level = 0, slope = 0;  // means of dy * weight, and of that times the normalised x
    for (std::int64_t h = 0; h < x.cols(); ++h) {
      const double grad = dy(t, h) * weight.data[static_cast<std::size_t>(h)], normal = (x(t, h) - mean) * inv_std;
      level += grad / count;
      slope += grad * normal / count;
      grads.dweight.data[static_cast<std::size_t>(h)] += dy(t, h) * normal;
      grads.dbias.data[static_cast<std::size_t>(h)] += dy(t, h);
    }
    for (std::int64_t h = 0; h < x.cols(); ++h) {
      const double grad = dy(t, h) * weight.data[static_cast<std::size_t>(h)], normal = (x(t, h) - mean) * inv_std;
      grads.dx(t, h) = inv_std * (grad - level - normal * slope);
    }
  }
  return grads;
}

Values gelu(const Values& x, const Values& bias) {
  Values y = add_bias(x, bias);
  for (double& v : y.data) v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  return y;
}

Values gelu_backward(const Values& dy, const Values& x, const Values& bias) {
  Values dx = add_bias(x, bias);
  for (std::size_t i = 0; i < dx.data.size(); ++i) {
    const double v = dx.data[i], root = std::sqrt(2 / M_PI), t = std::tanh(root * (v + 0.044715 * v * v * v));
    dx.data[i] = dy.data[i] * (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v));
  }
  return dx;
}

Values add_bias(Values x, const Values& bias) {
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    for (std::int64_t n = 0; n < x.cols(); ++n) x(t, n) += bias.data[static_cast<std::size_t>(n)];
  }
  return x;
}

Values column_sums(const Values& x) {
  Values sums(Shape{x.cols()});
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    for (std::int64_t n = 0; n < x.cols(); ++n) sums.data[static_cast<std::size_t>(n)] += x(t, n);
  }
  return sums;
}

namespace {

std::int64_t position_of(std::int64_t token, std::int64_t sequence, const Values& documents) {
  const double begin = documents.data.empty() ? 0 : documents.data[static_cast<std::size_t>(token)];
  return token % sequence - static_cast<std::int64_t>(begin);
}

}  // namespace

Values add_positions(std::int64_t first_token, std::int64_t sequence, const Values& table, Values x, const Values& documents) {
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    for (std::int64_t h = 0; h < x.cols(); ++h) x(t, h) += table(position_of(first_token + t, sequence, documents), h);
  }
  return x;
}

Values positions_grad(const PositionsShape& shape, const Values& dy, const Values& documents) {
  Values dtable(Shape{shape.positions, dy.cols()});
  for (std::int64_t t = 0; t < dy.rows(); ++t) {
    for (std::int64_t h = 0; h < dy.cols(); ++h)
      dtable(position_of(shape.first_token + t, shape.sequence, documents), h) += dy(t, h);
  }
  return dtable;
}

double dropout_factor(const Dropout& dropout, const DropoutIndex& place) {
  PhiloxWords<1> words;
  words[0][0] = static_cast<std::uint32_t>(place.column / 8);
  words[1][0] = static_cast<std::uint32_t>(place.row);
  words[2][0] = static_cast<std::uint32_t>(dropout.first_sample + place.sample);
  words[3][0] = static_cast<std::uint32_t>(dropout.first_plane + place.plane);
  philox(dropout.key, words);
  const std::uint32_t word = words[static_cast<std::size_t>(place.column % 8 / 2)][0];
  const std::uint32_t draw = place.column % 2 == 0 ? word % 65536 : word / 65536;
  return draw < dropout.dropped ? 0 : 65536.0 / (65536.0 - dropout.dropped);
}

Values dropout(const Dropout& dropout, std::int64_t first_token, std::int64_t sequence, Values x) {
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    const std::int64_t token = first_token + t;
    for (std::int64_t h = 0; h < x.cols(); ++h) x(t, h) *= dropout_factor(dropout, {token / sequence, token % sequence, h, 0});
  }
  return x;
}

}  // namespace pipetrain::testing::reference
