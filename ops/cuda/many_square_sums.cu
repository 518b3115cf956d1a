#include "ops/cuda/many_square_sums.hpp"

#include <cassert>

#include "ops/cuda/launch.hpp"
#include "ops/cuda/square_sum.cuh"

namespace pipetrain::cuda {
namespace {

// The kernel's arguments: 3 KB.
struct Table {
  const float* data[most_square_sums];
  std::int64_t count[most_square_sums];  // elements
  double* sum[most_square_sums];
  unsigned first_block[most_square_sums + 1];  // over the blocks of all tensors
};

// Each block sums one block of one tensor.
__global__ void __launch_bounds__(square_threads)
    block_sums_kernel(const __grid_constant__ Table table, int tensors, double* partial) {
  cudaTriggerProgrammaticLaunchCompletion();  // the next kernel's launch overlaps
  wait_for_previous();
  __shared__ double shared[square_threads];
  int low = 0, high = tensors - 1;  // the last tensor that begins at this block or before it
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (table.first_block[middle] <= blockIdx.x) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const float* const data = table.data[low];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x - table.first_block[low]) * square_block_elements;
  const bool wide = reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  const double sum = square_sum_of_block(data, begin, table.count[low], wide, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// One block handles a tensor.
__global__ void __launch_bounds__(square_threads)
    tensor_sums_kernel(const __grid_constant__ Table table, const double* partial) {
  cudaTriggerProgrammaticLaunchCompletion();
  wait_for_previous();
  __shared__ double shared[square_threads];
  const unsigned first = table.first_block[blockIdx.x], blocks = table.first_block[blockIdx.x + 1] - first;
  const double total = add_block_sums(partial + first, blocks, shared);
  if (threadIdx.x == 0) *table.sum[blockIdx.x] = total;
}

unsigned blocks_of(const SquareSumArgs& one) { return blocks_for(one.tensor.elements(), square_block_elements); }

}  // namespace

std::size_t square_sum_each_scratch(std::span<const SquareSumArgs> sums) {
  std::size_t blocks = 0;
  for (const SquareSumArgs& one : sums) blocks += blocks_of(one);
  return blocks * sizeof(double);
}

void square_sum_each(cudaStream_t stream, std::span<const SquareSumArgs> sums, void* scratch) {
  assert(sums.size() <= most_square_sums);
  if (sums.empty()) return;
  Table table = {};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    table.data[i] = data_of<float>(sums[i].tensor);
    table.count[i] = sums[i].tensor.elements();
    table.sum[i] = data_of<double>(sums[i].sum);
    table.first_block[i + 1] = table.first_block[i] + blocks_of(sums[i]);
  }
  auto* const partial = static_cast<double*>(scratch);
  launch(stream, block_sums_kernel, table.first_block[sums.size()], square_threads, 0, table, static_cast<int>(sums.size()),
         partial);
  launch(stream, tensor_sums_kernel, static_cast<unsigned>(sums.size()), square_threads, 0, table, partial);
}

}  // namespace pipetrain::cuda
