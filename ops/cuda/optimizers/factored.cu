// Optimizers that keep the averages of a matrix's squares as those of its rows times those of its columns. As on the CPU,
// numbers are computed in fp64 and rounded where they are stored.
#include <cmath>

#include "ops/cuda/optimizers/line_means.cuh"
#include "ops/cuda/optimizers/tensor_rules.hpp"

namespace pipetrain::cuda {
namespace {

// first: the index among the states of that of the model's rows; that of its columns follows.
LineAverages line_averages(const TensorUpdateArgs& args, std::size_t first) {
  float *const of_rows = data_of<float>(args.states[first]), *const of_columns = data_of<float>(args.states[first + 1]);
  return args.transposed ? LineAverages{of_columns, of_rows} : LineAverages{of_rows, of_columns};
}

struct ScaledSquare {
  const float* grad;
  double grad_scale, added = 0;
  __device__ double operator()(std::int64_t i) const {
    const double scaled = grad[i] * grad_scale;
    return scaled * scaled + added;
  }
};

struct ValueOf {
  const float* values;
  __device__ double operator()(std::int64_t i) const { return values[i]; }
};

struct KeepMean {
  double* mean;
  double count, least;
  __device__ void operator()(double sum) const { *mean = fmax(sum / count, least); }
};

// Keeps by how much the root mean square of an update exceeds the threshold, at least 1.
struct KeepDivisor {
  double* divisor;
  double count, threshold;
  __device__ void operator()(double squares) const { *divisor = fmax(1.0, sqrt(squares / count) / threshold); }
};

// --- Adafactor ---

// Each writes update = the gradient divided by the root of its averaged square; its value is the update's square.
struct AdafactorMatrix {
  const float *grad, *rows, *columns;
  const double* mean;  // of the rows
  std::int64_t width;
  double grad_scale, least;
  float* update;
  __device__ double operator()(std::int64_t i) const {
    const double variance = static_cast<double>(rows[i / width]) * columns[i % width] / *mean;
    update[i] = static_cast<float>(grad[i] * grad_scale / sqrt(fmax(variance, least)));
    return static_cast<double>(update[i]) * update[i];
  }
};
struct AdafactorVector {
  const float* grad;
  float *variance, *update;
  double share, grad_scale, least;
  __device__ double operator()(std::int64_t i) const {
    const double scaled = grad[i] * grad_scale;
    variance[i] = static_cast<float>(variance[i] + share * (scaled * scaled - variance[i]));
    update[i] = static_cast<float>(scaled / sqrt(fmax(static_cast<double>(variance[i]), least)));
    return static_cast<double>(update[i]) * update[i];
  }
};

struct AdafactorWeight {
  float* weight;
  const float* update;
  const double *weight_size, *divisor;
  double rate, least_scale, keep;
  __device__ void operator()(std::int64_t i) const {
    const double factor = fmax(least_scale, *weight_size) * rate / *divisor;
    weight[i] = static_cast<float>(weight[i] * keep - factor * update[i]);
  }
};

// --- CAME ---

// Divides a value by the root of its element's averaged square.
struct LineRoots {
  const float *rows, *columns;
  const double* mean;  // of the rows
  std::int64_t width;
  __device__ float divide(float value, std::int64_t i) const {
    return static_cast<float>(value / (sqrt(rows[i / width] / *mean) * sqrt(static_cast<double>(columns[i % width]))));
  }
};

// Each writes the update before it is clipped; its value is the update's square.
struct CameMatrix {
  const float* grad;
  float grad_scale;
  LineRoots roots;
  float* update;
  __device__ double operator()(std::int64_t i) const {
    update[i] = roots.divide(grad[i] * grad_scale, i);
    return static_cast<double>(update[i]) * update[i];
  }
};
struct CameVector {
  ScaledSquare square;
  double share;
  float *variance, *update;
  __device__ double operator()(std::int64_t i) const {
    variance[i] = static_cast<float>(variance[i] + share * (square(i) - variance[i]));
    update[i] = static_cast<float>(square.grad[i] * square.grad_scale / sqrt(static_cast<double>(variance[i])));
    return static_cast<double>(update[i]) * update[i];
  }
};

struct CameMoment {
  float *update, *moment;
  const double* divisor;
  double share;
  __device__ void operator()(std::int64_t i) const {
    update[i] = static_cast<float>(update[i] / *divisor);
    moment[i] = static_cast<float>(moment[i] + share * (static_cast<double>(update[i]) - moment[i]));
  }
};

struct Deviation {
  const float *update, *moment;
  double added;
  __device__ double operator()(std::int64_t i) const {
    const double difference = static_cast<double>(update[i]) - moment[i];
    return difference * difference + added;
  }
};

struct CameWeight {
  float* weight;
  const float* moment;
  bool is_matrix;
  LineRoots roots;  // of a matrix
  double keep, lr;
  __device__ void operator()(std::int64_t i) const {
    const float update = is_matrix ? roots.divide(moment[i], i) : moment[i];
    weight[i] = static_cast<float>(weight[i] * keep - lr * static_cast<double>(update));
  }
};

// The averages over lines that an update brings up to date: their first state, and the share that a step has in them.
struct AveragedLines {
  std::size_t first_state;
  double share;
  double* mean;  // of the rows' averages, to be written
};

// Averages value(i) over the matrix's lines, and returns what divides by the roots.
template <class Value>
LineRoots averaged_roots(cudaStream_t stream, const TensorUpdateArgs& args, const AveragedLines& of, const Value& value,
                         double* partial) {
  const LineAverages lines = line_averages(args, of.first_state);
  const std::int64_t rows = args.weight.rows();
  average_lines(stream, args.weight.shape, lines, of.share, value, partial);
  sum_elements(stream, rows, partial, ValueOf{lines.rows}, KeepMean{of.mean, static_cast<double>(rows), 0});
  return {lines.rows, lines.columns, of.mean, args.weight.cols()};
}

}  // namespace

std::size_t tensor_rule_scratch(const Shape& weight) {
  std::int64_t sums = ceil_div(weight.elements(), sum_block);
  if (weight.rank() == 2) sums = std::max(sums, column_ranges(weight[0], weight[1]) * weight[1]);
  return static_cast<std::size_t>(most_numbers + sums) * sizeof(double);
}

void step_tensor(cudaStream_t stream, const TensorUpdateArgs& args, const Adafactor& rule, void* scratch) {
  double* const numbers = numbers_of(scratch);
  double *const weight_size = numbers, *const mean = numbers + 1, *const divisor = numbers + 2;
  double* const partial = partial_sums_of(scratch);
  auto *const weight = data_of<float>(args.weight), *const update = data_of<float>(args.scratch);
  const float* const grad = data_of<float>(args.grad);
  const std::int64_t count = args.weight.elements();
  const auto elements = static_cast<double>(count);
  const double share = std::pow(static_cast<double>(rule.step), static_cast<double>(rule.beta2_decay));
  const double least = static_cast<double>(rule.eps) * rule.eps;
  const KeepDivisor clip{divisor, elements, rule.clip_threshold};
  sum_elements(stream, count, partial, SquareOf{weight}, KeepRoot{weight_size, elements});
  if (args.weight.shape.rank() == 2) {
    const LineAverages lines = line_averages(args, 0);
    const std::int64_t rows = args.weight.rows();
    average_lines(stream, args.weight.shape, lines, share, ScaledSquare{grad, rule.grad_scale}, partial);
    sum_elements(stream, rows, partial, ValueOf{lines.rows}, KeepMean{mean, static_cast<double>(rows), rule.eps});
    const AdafactorMatrix step{grad, lines.rows, lines.columns, mean, args.weight.cols(), rule.grad_scale, least, update};
    sum_elements(stream, count, partial, step, clip);
  } else {
    const AdafactorVector step{grad, data_of<float>(args.states[2]), update, share, rule.grad_scale, least};
    sum_elements(stream, count, partial, step, clip);
  }
  for_each_element(stream, count,
                   AdafactorWeight{.weight = weight,
                                   .update = update,
                                   .weight_size = weight_size,
                                   .divisor = divisor,
                                   .rate = std::min(double{rule.lr}, 1 / std::sqrt(static_cast<double>(rule.step))),
                                   .least_scale = rule.least_scale,
                                   .keep = 1 - double{rule.lr} * rule.weight_decay});
}

void step_tensor(cudaStream_t stream, const TensorUpdateArgs& args, const Came& rule, void* scratch) {
  double* const numbers = numbers_of(scratch);
  double *const mean = numbers, *const divisor = numbers + 1, *const deviation_mean = numbers + 2;
  double* const partial = partial_sums_of(scratch);
  auto *const weight = data_of<float>(args.weight), *const update = data_of<float>(args.scratch);
  auto* const moment = data_of<float>(args.states[0]);
  const float* const grad = data_of<float>(args.grad);
  const std::int64_t count = args.weight.elements();
  const bool is_matrix = args.weight.shape.rank() == 2;
  const ScaledSquare square{grad, rule.grad_scale, rule.eps};
  const KeepDivisor clip{divisor, static_cast<double>(count), rule.clip_threshold};
  if (is_matrix) {
    const LineRoots roots = averaged_roots(stream, args, {2, 1 - double{rule.beta2}, mean}, square, partial);
    sum_elements(stream, count, partial, CameMatrix{grad, rule.grad_scale, roots, update}, clip);
  } else {
    const CameVector step{square, 1 - double{rule.beta2}, data_of<float>(args.states[1]), update};
    sum_elements(stream, count, partial, step, clip);
  }
  for_each_element(stream, count, CameMoment{update, moment, divisor, 1 - double{rule.beta1}});
  LineRoots roots{};
  if (is_matrix) {
    const Deviation deviation{update, moment, rule.deviation_eps};
    roots = averaged_roots(stream, args, {4, 1 - double{rule.beta3}, deviation_mean}, deviation, partial);
  }
  for_each_element(stream, count,
                   CameWeight{weight, moment, is_matrix, roots, 1 - double{rule.lr} * rule.weight_decay, rule.lr});
}

}  // namespace pipetrain::cuda
