#include <algorithm>

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/rows.hpp"
#include "ops/cpu/tiles.hpp"
#include "ops/cpu/vector_math.hpp"

namespace pipetrain::cpu {
namespace {

template <class T>
void add_elements(CpuStream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  for_elements(stream, out.elements(), [&](std::int64_t begin, std::int64_t end) {
    const T *x = a.as<T>(), *y = b.as<T>();
    T* sum = out.as<T>();
    for (std::int64_t i = begin; i < end; ++i) sum[i] = x[i] + y[i];
  });
}

}  // namespace

void add(CpuStream& stream, const Tensor& a, const Tensor& b, const Tensor& out) {
  if (out.dtype == DType::f64) {
    add_elements<double>(stream, a, b, out);
  } else if (out.dtype == DType::i32) {
    add_elements<std::int32_t>(stream, a, b, out);
  } else {
    add_elements<float>(stream, a, b, out);
  }
}

void round(CpuStream& stream, const Tensor& source, const Tensor& target) {
  for_elements(stream, target.elements(), [&](std::int64_t begin, std::int64_t end) {
    narrow(target.dtype, source.as<float>() + begin, end - begin, element_at(target, begin));
  });
}

void add_rounded(CpuStream& stream, const Tensor& source, const Tensor& addend, const Tensor& target) {
  for_elements(stream, target.elements(), [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t run = 1024;
    const float* const sums = source.as<float>();
    float wide[run];
    for (std::int64_t first = begin; first < end; first += run) {
      const std::int64_t count = std::min(run, end - first);
      widen(addend.dtype, element_at(addend, first), count, wide);
      for (std::int64_t i = 0; i < count; ++i) wide[i] += sums[first + i];
      narrow(target.dtype, wide, count, element_at(target, first));
    }
  });
}

void square_sums(CpuStream& stream, const Tensor& tensor, const Tensor& sums) {
  stream.parallel_for(sums.elements(), [&](std::int64_t at) {
    const float* values = tensor.as<float>() + at * square_sum_block;
    const std::int64_t count = std::min(square_sum_block, tensor.elements() - at * square_sum_block);
    sums.as<double>()[at] = lane_sum<double>(count, [values](std::int64_t i) {
      const double value = values[i];
      return value * value;
    });
  });
}

void square_sum(CpuStream& stream, const Tensor& tensor, const Tensor& sum, const Tensor& partial) {
  square_sums(stream, tensor, partial);
  double total = 0;
  for (std::int64_t at = 0; at < partial.elements(); ++at) total += partial.as<double>()[at];
  sum.as<double>()[0] = total;
}

}  // namespace pipetrain::cpu
