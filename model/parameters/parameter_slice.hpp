// Converts between a logical tensor as its file has it and the slice of it that a rank holds.
#pragma once

#include <cstdint>
#include <vector>

#include "model/parameters/parameters.hpp"

namespace pipetrain {

// Calls run(first, count, position) for each contiguous range of the slice in the file: elements [first, first + count) of the
// full tensor are elements [position, position + count) of the slice, which is not transposed yet.
template <class Run>
void for_each_run(const Parameter& parameter, Run run) {
  const std::int64_t count = parameter.local.elements();
  const std::int64_t row = parameter.full.rank() == 2 ? parameter.full[1] : 1;
  const std::int64_t cols = parameter.split_axis != 1 ? row : parameter.local[parameter.transposed ? 0 : 1];
  if (cols == row) return run(parameter.split_axis < 0 ? 0 : parameter.begin * row, count, std::int64_t{0});
  for (std::int64_t i = 0; i < parameter.full[0]; ++i) run(i * row + parameter.begin, cols, i * cols);
}

// out [cols, rows] = in [rows, cols], transposed; they must not overlap.
void transpose(const float* in, std::int64_t rows, std::int64_t cols, float* out);

// out (parameter.local) = the slice. read(first, count, to) must write elements [first, first + count) of the
// full tensor to `to`.
template <class Read>
void read_slice(const Parameter& parameter, float* out, Read read) {
  std::vector<float> as_in_file(parameter.transposed ? static_cast<std::size_t>(parameter.local.elements()) : 0);
  float* const target = parameter.transposed ? as_in_file.data() : out;
  for_each_run(parameter,
               [&](std::int64_t first, std::int64_t count, std::int64_t position) { read(first, count, target + position); });
  if (parameter.transposed) transpose(target, parameter.local[1], parameter.local[0], out);
}

// Does the reverse: copies the slice (parameter.local) to its elements of the full tensor.
void write_slice(const Parameter& parameter, const float* slice, float* full);

}  // namespace pipetrain
