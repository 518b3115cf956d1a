// Loops and fp64 sums over the elements of one tensor. Tiles follow from the shape alone and their sums are added in order, so
// that results do not depend on the number of threads.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ops/cpu/tiles.hpp"

namespace pipetrain::cpu {

// Calls work(i) for each element.
template <class Work>
void for_each_element(CpuStream& stream, std::int64_t count, const Work& work) {
  for_elements(stream, count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) work(i);
  });
}

// value(i): a number of element i.
template <class Value>
double sum_over(CpuStream& stream, std::int64_t count, const Value& value) {
  const std::int64_t tiles = row_tiles(count, 1);
  std::vector<double> sums(static_cast<std::size_t>(tiles), 0);
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    double sum = 0;
    for (std::int64_t i = count * tile / tiles; i < count * (tile + 1) / tiles; ++i) sum += value(i);
    sums[static_cast<std::size_t>(tile)] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

inline double norm_of(CpuStream& stream, std::int64_t count, const float* values) {
  return std::sqrt(sum_over(stream, count, [values](std::int64_t i) { return static_cast<double>(values[i]) * values[i]; }));
}

// The means of a matrix's elements over each row and over each column.
struct LineMeans {
  std::vector<double> rows, columns;
};

// value(i): a number of element i of the row-major matrix.
template <class Value>
LineMeans line_means(CpuStream& stream, std::int64_t rows, std::int64_t columns, const Value& value) {
  const std::int64_t tiles = row_tiles(rows, columns);
  LineMeans means{std::vector<double>(static_cast<std::size_t>(rows), 0), {}};
  std::vector<std::vector<double>> parts(static_cast<std::size_t>(tiles));
  stream.parallel_for(tiles, [&](std::int64_t tile) {
    std::vector<double>& own = parts[static_cast<std::size_t>(tile)];
    own.assign(static_cast<std::size_t>(columns), 0);
    for (std::int64_t row = rows * tile / tiles; row < rows * (tile + 1) / tiles; ++row) {
      double sum = 0;
      for (std::int64_t column = 0; column < columns; ++column) {
        const double one = value(row * columns + column);
        sum += one;
        own[static_cast<std::size_t>(column)] += one;
      }
      means.rows[static_cast<std::size_t>(row)] = sum / static_cast<double>(columns);
    }
  });
  means.columns.assign(static_cast<std::size_t>(columns), 0);
  for (const std::vector<double>& part : parts)
    for (std::size_t i = 0; i < part.size(); ++i) means.columns[i] += part[i];
  for (double& mean : means.columns) mean /= static_cast<double>(rows);
  return means;
}

}  // namespace pipetrain::cpu
