// The logical tensors of which a rank holds anything. A rank may hold one as several slices that follow each other in the
// arenas, such as GPT-2's joint query, key and value. Without tensor parallelism they are one matrix again.
#pragma once

#include <cstddef>
#include <vector>

#include "model/parameters/parameters.hpp"

namespace pipetrain {

struct WholeTensor {
  // The tensor as one parameter without a split axis, stored as the slices are, at the first slice's offsets.
  Parameter parameter;
  std::size_t first_slice = 0, slices = 1;  // in ParameterLayout::parameters
  std::size_t held = 0;                     // elements of all slices
  bool is_split = false;                    // other tensor-parallel ranks hold the rest, or copies
};

// Returns all tensors of the layout, in its order. Throws Error(unavailable) for one that the rank holds whole, but not as one
// matrix. Pure.
std::vector<WholeTensor> whole_tensors(const ParameterLayout& layout);

}  // namespace pipetrain
