#include <cmath>

#include "ops/cuda/optimizers/element_sums.cuh"
#include "ops/cuda/optimizers/tensor_rules.hpp"
#include "ops/update.hpp"

namespace pipetrain::cuda {
namespace {

struct SecondMoment {
  const float* second;
  __device__ double operator()(std::int64_t i) const { return second[i]; }
};
struct KeepLeast {
  double* least;
  double factor;
  __device__ void operator()(double sum) const { *least = factor * sum; }
};
struct RaiseMoment {
  float* second;
  const double* least;
  __device__ void operator()(std::int64_t i) const { second[i] = fmaxf(second[i], static_cast<float>(*least)); }
};

struct SquaredQuotient {
  const float *first, *second;
  float unbias, eps;
  __device__ double operator()(std::int64_t i) const {
    const double quotient = first[i] / (sqrtf(second[i] * unbias) + eps);
    return quotient * quotient;
  }
};
struct KeepFactor {
  double* factor;
  double beta2, scale;
  __device__ void operator()(double sum) const { *factor = beta2 + scale * sum; }
};
struct ScaleMoment {
  float* second;
  const double* factor;
  __device__ void operator()(std::int64_t i) const { second[i] *= static_cast<float>(*factor); }
};

}  // namespace

std::size_t settle_moments_scratch(std::int64_t elements) {
  return static_cast<std::size_t>(most_numbers + ceil_div(elements, sum_block)) * sizeof(double);
}

void settle_moments(cudaStream_t stream, const SettleMomentsArgs& args, void* scratch) {
  const std::int64_t count = args.second.elements();
  if (count == 0) return;
  double *const number = numbers_of(scratch), *const partial = partial_sums_of(scratch);
  const auto* const first = data_of<float>(args.first);
  auto* const second = data_of<float>(args.second);
  const auto elements = static_cast<double>(count);
  if (args.raises) {
    sum_elements(stream, count, partial, SecondMoment{second}, KeepLeast{number, least_moment_share / elements});
    return for_each_element(stream, count, RaiseMoment{second, number});
  }
  const double usual = (1 - double{args.beta1}) / (1 + double{args.beta1});  // mean square
  const SquaredQuotient square{first, second, adam_correction(args.beta2, args.frozen_after), args.eps};
  sum_elements(stream, count, partial, square, KeepFactor{number, args.beta2, (1 - double{args.beta2}) / usual / elements});
  for_each_element(stream, count, ScaleMoment{second, number});
}

}  // namespace pipetrain::cuda
