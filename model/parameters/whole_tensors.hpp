// The logical tensors that a rank holds whole. A rank without tensor parallelism may hold one as several slices that follow
// each other in the arenas, such as GPT-2's joint query, key and value; together they are one matrix again.
#pragma once

#include <cstddef>
#include <vector>

#include "model/parameters/parameters.hpp"

namespace pipetrain {

struct WholeTensor {
  Parameter parameter;          // of the first slice, with the shape of all of them and no split axis
  std::size_t first_slice = 0;  // in ParameterLayout::parameters
};

// Returns all tensors of the layout, in its order. Throws Error(unavailable) for one that the rank does not hold whole, or as
// several matrices. Pure.
std::vector<WholeTensor> whole_tensors(const ParameterLayout& layout);

}  // namespace pipetrain
