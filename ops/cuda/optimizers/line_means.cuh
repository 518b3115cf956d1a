// The averages of a matrix's numbers over each row and over each column, with means of numbers in fp64. The order of a sum
// follows from the matrix's shape alone. Only for .cu files.
#pragma once

#include <algorithm>

#include "ops/cuda/optimizers/element_sums.cuh"

namespace pipetrain::cuda {

constexpr int line_columns = 32, line_rows = 8;  // of a block that adds up columns
constexpr std::int64_t most_line_blocks = 2048, least_range_rows = 64;

// The ranges of rows whose sums are added for a column.
inline std::int64_t column_ranges(std::int64_t rows, std::int64_t columns) {
  const std::int64_t across = ceil_div<std::int64_t>(columns, line_columns);
  return std::clamp<std::int64_t>(most_line_blocks / across, 1, ceil_div(rows, least_range_rows));
}

// average += share * (mean - average), in fp64.
struct Averages {
  float* of_lines;
  double share;
  __device__ void add(std::int64_t line, double mean) const {
    of_lines[line] = static_cast<float>(of_lines[line] + share * (mean - of_lines[line]));
  }
};

// A block handles a row.
template <class Value>
__global__ void __launch_bounds__(element_threads) average_rows_kernel(std::int64_t columns, Value value, Averages averages) {
  wait_for_previous();
  __shared__ double shared[element_threads];
  const std::int64_t row = blockIdx.x;
  double own = 0;
#pragma unroll 4
  for (std::int64_t column = threadIdx.x; column < columns; column += element_threads) own += value(row * columns + column);
  const double sum = block_sum<element_threads>(own, shared);
  if (threadIdx.x == 0) averages.add(row, sum / static_cast<double>(columns));
}

// partial: [ranges, columns], the sums over each range of rows.
template <class Value>
__global__ void __launch_bounds__(line_columns* line_rows)
    column_ranges_kernel(std::int64_t rows, std::int64_t columns, std::int64_t range_rows, Value value, double* partial) {
  wait_for_previous();
  __shared__ double shared[line_rows][line_columns];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * line_columns + threadIdx.x;
  const std::int64_t begin = blockIdx.y * range_rows, end = begin + range_rows < rows ? begin + range_rows : rows;
  double own = 0;
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + threadIdx.y; row < end; row += line_rows) own += value(row * columns + column);
  }
  shared[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  double sum = 0;
  for (int row = 0; row < line_rows; ++row) sum += shared[row][threadIdx.x];
  partial[blockIdx.y * columns + column] = sum;
}

// The averages of columns, from the sums of ranges of their rows.
struct AverageColumn {
  const double* partial;
  std::int64_t ranges, rows, columns;
  Averages averages;
  __device__ void operator()(std::int64_t column) const {
    double sum = 0;
    for (std::int64_t range = 0; range < ranges; ++range) sum += partial[range * columns + column];
    averages.add(column, sum / static_cast<double>(rows));
  }
};

struct LineAverages {
  float *rows, *columns;  // of the stored matrix
};

// Brings the averages over lines up to date with value(i) of each element of the row-major matrix, which it calls twice.
template <class Value>
void average_lines(cudaStream_t stream, const Shape& matrix, const LineAverages& averages, double share, const Value& value,
                   double* partial) {
  const std::int64_t rows = matrix[0], columns = matrix[1];
  launch(stream, average_rows_kernel<Value>, static_cast<unsigned>(rows), element_threads, 0, columns, value,
         Averages{averages.rows, share});
  const std::int64_t range_rows = ceil_div(rows, column_ranges(rows, columns)), ranges = ceil_div(rows, range_rows);
  launch(stream, column_ranges_kernel<Value>, dim3(blocks_for(columns, line_columns), static_cast<unsigned>(ranges)),
         dim3(line_columns, line_rows), 0, rows, columns, range_rows, value, partial);
  for_each_element(stream, columns, AverageColumn{partial, ranges, rows, columns, {averages.columns, share}});
}

}  // namespace pipetrain::cuda
