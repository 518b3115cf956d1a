// Loops and fp64 sums over the elements of one tensor. The order of a sum follows from the number of elements alone. Only for
// .cu files.
#pragma once

#include "ops/cuda/launch.hpp"
#include "ops/cuda/vector.cuh"

namespace pipetrain::cuda {

constexpr int element_threads = 256, sum_rounds = 16;
constexpr std::int64_t sum_block = std::int64_t{element_threads} * sum_rounds;  // elements that a block adds up
constexpr int last_sum_threads = 1024;

// The sums and the numbers that follow from them in the scratch memory of an update.
constexpr std::int64_t most_numbers = 32;
inline double* numbers_of(void* scratch) { return static_cast<double*>(scratch); }
inline double* partial_sums_of(void* scratch) { return static_cast<double*>(scratch) + most_numbers; }

// Returns, in thread 0, the sum of the block's numbers. shared: [threads], not in use.
template <int threads>
__device__ double block_sum(double own, double* shared) {
  shared[threadIdx.x] = own;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  return shared[0];
}

template <class Value>
__global__ void __launch_bounds__(element_threads) element_sums_kernel(std::int64_t count, Value value, double* partial) {
  wait_for_previous();
  __shared__ double shared[element_threads];
  double own = 0;
#pragma unroll 4
  for (int round = 0; round < sum_rounds; ++round) {
    const std::int64_t i = blockIdx.x * sum_block + round * element_threads + threadIdx.x;
    if (i < count) own += value(i);
  }
  const double sum = block_sum<element_threads>(own, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class Finish>
__global__ void __launch_bounds__(last_sum_threads) last_sum_kernel(const double* partial, unsigned blocks, Finish finish) {
  wait_for_previous();
  __shared__ double shared[last_sum_threads];
  double own = 0;
  for (unsigned i = threadIdx.x; i < blocks; i += last_sum_threads) own += partial[i];
  const double sum = block_sum<last_sum_threads>(own, shared);
  if (threadIdx.x == 0) finish(sum);
}

// Calls finish(the sum of value(i) over all elements) on one thread. value may change the elements that it reads, once each.
template <class Value, class Finish>
void sum_elements(cudaStream_t stream, std::int64_t count, double* partial, const Value& value, const Finish& finish) {
  const unsigned blocks = blocks_for(count, sum_block);
  launch(stream, element_sums_kernel<Value>, blocks, element_threads, 0, count, value, partial);
  launch(stream, last_sum_kernel<Finish>, 1, last_sum_threads, 0, partial, blocks, finish);
}

template <class Work>
__global__ void __launch_bounds__(element_threads) elements_kernel(std::int64_t count, Work work) {
  wait_for_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * element_threads + threadIdx.x;
  if (i < count) work(i);
}

// Calls work(i) for each element.
template <class Work>
void for_each_element(cudaStream_t stream, std::int64_t count, const Work& work) {
  launch(stream, elements_kernel<Work>, blocks_for(count, element_threads), element_threads, 0, count, work);
}

struct SquareOf {
  const float* values;
  __device__ double operator()(std::int64_t i) const { return static_cast<double>(values[i]) * values[i]; }
};

// *norm = the root of a sum of squares, divided by that of the count for a root mean square.
struct KeepRoot {
  double* root;
  double divisor = 1;
  __device__ void operator()(double sum) const { *root = sqrt(sum / divisor); }
};

}  // namespace pipetrain::cuda
