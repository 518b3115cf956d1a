// The squares' sums of many tensors at once, as an Ops may offer: of a model's gradients most are too small to keep a GPU busy.
#pragma once

#include <vector>

#include "core/tensor.hpp"

namespace pipetrain {

struct SquareSum {
  Tensor tensor;  // f32, with elements
  Tensor sum;     // [1] f64, written
};

class ManySquareSums {
 public:
  virtual ~ManySquareSums() = default;
  // Each sum to the bit as Ops::square_sum's.
  virtual void square_sum_each(const std::vector<SquareSum>& sums) = 0;
};

}  // namespace pipetrain
