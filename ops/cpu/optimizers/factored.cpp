// Optimizers that keep the averages of a matrix's squares as those of its rows times those of its columns.
#include <algorithm>

#include "ops/cpu/optimizers/tensor_rules.hpp"
#include "ops/cpu/optimizers/tensor_sums.hpp"

namespace pipetrain::cpu {
namespace {

// average += share * (new - average)
void average(float* averages, const std::vector<double>& values, double share) {
  for (std::size_t i = 0; i < values.size(); ++i)
    averages[i] = static_cast<float>(averages[i] + share * (values[i] - averages[i]));
}

double mean_of(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += values[i];
  return sum / static_cast<double>(count);
}

double root_mean_square(CpuStream& stream, const float* values, std::int64_t count) {
  return norm_of(stream, count, values) / std::sqrt(static_cast<double>(count));
}

// Calls work(row, column, i) for each element i of the matrix.
template <class Work>
void for_each_place(CpuStream& stream, std::int64_t rows, std::int64_t columns, const Work& work) {
  for_row_tiles(stream, rows, columns, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < columns; ++column) work(row, column, row * columns + column);
  });
}

// update = the gradient divided by the roots of its averaged squares, which are brought up to date.
void scale_gradient(CpuStream& stream, const TensorUpdateArgs& args, const Adafactor& rule, float* update) {
  const float* const grad = args.grad.as<float>();
  const std::int64_t count = args.weight.elements();
  const double share = std::pow(static_cast<double>(rule.step), static_cast<double>(rule.beta2_decay));
  const double least = static_cast<double>(rule.eps) * rule.eps;
  const auto scaled = [&](std::int64_t i) { return static_cast<double>(grad[i]) * rule.grad_scale; };
  if (args.weight.shape.rank() != 2) {
    float* const variance = args.states[2].as<float>();
    return for_each_element(stream, count, [&](std::int64_t i) {
      variance[i] = static_cast<float>(variance[i] + share * (scaled(i) * scaled(i) - variance[i]));
      update[i] = static_cast<float>(scaled(i) / std::sqrt(std::max<double>(variance[i], least)));
    });
  }
  const std::int64_t rows = args.weight.rows(), columns = args.weight.cols();
  const LineMeans means = line_means(stream, rows, columns, [&](std::int64_t i) { return scaled(i) * scaled(i); });
  const LineStates states = line_states(args, 0);
  average(states.rows, means.rows, share);
  average(states.columns, means.columns, share);
  const double mean = std::max<double>(mean_of(states.rows, rows), rule.eps);
  for_each_place(stream, rows, columns, [&](std::int64_t row, std::int64_t column, std::int64_t i) {
    const double variance = static_cast<double>(states.rows[row]) * states.columns[column] / mean;
    update[i] = static_cast<float>(scaled(i) / std::sqrt(std::max(variance, least)));
  });
}

// Divides the update by what its root mean square exceeds the threshold.
double clip_divisor(CpuStream& stream, const float* update, std::int64_t count, double threshold) {
  return std::max(1.0, root_mean_square(stream, update, count) / threshold);
}

// values *= 1 / sqrt(r c / mean(r)), with the averages r of the rows and c of the columns.
void divide_by_roots(CpuStream& stream, const Tensor& matrix, const LineStates& states, float* values) {
  const double mean = mean_of(states.rows, matrix.rows());
  for_each_place(stream, matrix.rows(), matrix.cols(), [&](std::int64_t row, std::int64_t column, std::int64_t i) {
    values[i] =
        static_cast<float>(values[i] / (std::sqrt(states.rows[row] / mean) * std::sqrt(double{states.columns[column]})));
  });
}

// Brings the averages over lines up to date with value(i) of each element.
template <class Value>
void average_lines(CpuStream& stream, const Tensor& matrix, const LineStates& states, double beta, const Value& value) {
  const LineMeans means = line_means(stream, matrix.rows(), matrix.cols(), value);
  average(states.rows, means.rows, 1 - beta);
  average(states.columns, means.columns, 1 - beta);
}

}  // namespace

void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Adafactor& rule) {
  float *const weight = args.weight.as<float>(), *const update = args.scratch.as<float>();
  const std::int64_t count = args.weight.elements();
  const double rate = std::min(double{rule.lr}, 1 / std::sqrt(static_cast<double>(rule.step)));
  const double size = std::max(double{rule.least_scale}, root_mean_square(stream, weight, count)) * rate;
  scale_gradient(stream, args, rule, update);
  const double factor = size / clip_divisor(stream, update, count, rule.clip_threshold);
  const double keep = 1 - double{rule.lr} * rule.weight_decay;
  for_each_element(stream, count,
                   [&](std::int64_t i) { weight[i] = static_cast<float>(weight[i] * keep - factor * update[i]); });
}

void step_tensor(CpuStream& stream, const TensorUpdateArgs& args, const Came& rule) {
  float *const weight = args.weight.as<float>(), *const update = args.scratch.as<float>();
  float* const moment = args.states[0].as<float>();
  const float* const grad = args.grad.as<float>();
  const std::int64_t count = args.weight.elements();
  const bool is_matrix = args.weight.shape.rank() == 2;
  const auto square = [&](std::int64_t i) {
    const double scaled = double{grad[i]} * rule.grad_scale;
    return scaled * scaled + rule.eps;
  };
  if (is_matrix) {
    const LineStates states = line_states(args, 2);
    average_lines(stream, args.weight, states, rule.beta2, square);
    for_each_element(stream, count, [&](std::int64_t i) { update[i] = grad[i] * rule.grad_scale; });
    divide_by_roots(stream, args.weight, states, update);
  } else {
    float* const variance = args.states[1].as<float>();
    for_each_element(stream, count, [&](std::int64_t i) {
      variance[i] = static_cast<float>(variance[i] + (1 - double{rule.beta2}) * (square(i) - variance[i]));
      update[i] = static_cast<float>(double{grad[i]} * rule.grad_scale / std::sqrt(double{variance[i]}));
    });
  }
  const double divisor = clip_divisor(stream, update, count, rule.clip_threshold);
  for_each_element(stream, count, [&](std::int64_t i) {
    update[i] = static_cast<float>(update[i] / divisor);
    moment[i] = static_cast<float>(moment[i] + (1 - double{rule.beta1}) * (double{update[i]} - moment[i]));
  });
  const auto deviation = [&](std::int64_t i) {
    const double difference = double{update[i]} - moment[i];
    return difference * difference + rule.deviation_eps;
  };
  if (is_matrix) average_lines(stream, args.weight, line_states(args, 4), rule.beta3, deviation);
  std::copy_n(moment, count, update);
  if (is_matrix) divide_by_roots(stream, args.weight, line_states(args, 4), update);
  const double keep = 1 - double{rule.lr} * rule.weight_decay;
  for_each_element(stream, count,
                   [&](std::int64_t i) { weight[i] = static_cast<float>(weight[i] * keep - rule.lr * double{update[i]}); });
}

}  // namespace pipetrain::cpu
