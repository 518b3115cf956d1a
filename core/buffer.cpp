#include "core/buffer.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain {

Tensor Arena::allocate(const Shape& shape, DType dtype) {
  Tensor tensor{nullptr, shape, dtype};
  const std::size_t need = align_up(tensor.bytes());
  if (!is_measuring()) {
    if (need > bytes_ - used_) {
      throw Error(ErrorKind::out_of_memory, "arena " + name_ + ": " + std::to_string(need) + " bytes for " + to_string(shape) +
                                                " do not fit in the " + std::to_string(bytes_ - used_) + " left of " +
                                                std::to_string(bytes_));
    }
    tensor.data = static_cast<char*>(data_) + used_;
  }
  used_ += need;
  peak_ = std::max(peak_, used_);
  return tensor;
}

}  // namespace pipetrain
