#include "model/parameters/parameter_slice.hpp"

#include <algorithm>

namespace pipetrain {

void transpose(const float* in, std::int64_t rows, std::int64_t cols, float* out) {
  constexpr std::int64_t tile = 32;  // a tile's rows of both matrices fit the first-level cache
  for (std::int64_t row0 = 0; row0 < rows; row0 += tile) {
    for (std::int64_t col0 = 0; col0 < cols; col0 += tile) {
      for (std::int64_t row = row0; row < std::min(row0 + tile, rows); ++row) {
        for (std::int64_t col = col0; col < std::min(col0 + tile, cols); ++col) out[col * rows + row] = in[row * cols + col];
      }
    }
  }
}

void write_slice(const Parameter& parameter, const float* slice, float* full) {
  std::vector<float> as_in_file;
  if (parameter.transposed) {
    as_in_file.resize(static_cast<std::size_t>(parameter.local.elements()));
    transpose(slice, parameter.local[0], parameter.local[1], as_in_file.data());
    slice = as_in_file.data();
  }
  for_each_run(parameter, [&](std::int64_t first, std::int64_t count, std::int64_t position) {
    std::copy_n(slice + position, count, full + first);
  });
}

}  // namespace pipetrain
