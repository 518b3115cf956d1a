#include "core/tensor.hpp"

#include <algorithm>

namespace pipetrain {

std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::f64:
      return 8;
    case DType::i32:
      return 4;
    case DType::e4m3:
    case DType::e5m2:
      return 1;
  }
  return 0;
}

const char* to_string(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
  }
  return "?";
}

Shape::Shape(std::initializer_list<std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  assert(dims.size() <= max_rank);
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::elements() const noexcept {
  std::int64_t count = 1;
  for (int axis = 0; axis < rank_; ++axis) count *= dims_[static_cast<std::size_t>(axis)];
  return count;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(shape[axis]);
  }
  return text + "]";
}

Tensor Tensor::row_range(std::int64_t begin, std::int64_t end) const {
  assert(0 <= begin && begin <= end && end <= rows());
  Tensor part = *this;
  if (data != nullptr) part.data = static_cast<char*>(data) + static_cast<std::size_t>(begin * cols()) * size_of(dtype);
  switch (shape.rank()) {
    case 1:
      part.shape = {end - begin};
      break;
    case 2:
      part.shape = {end - begin, shape[1]};
      break;
    case 3:
      part.shape = {end - begin, shape[1], shape[2]};
      break;
    default:
      part.shape = {end - begin, shape[1], shape[2], shape[3]};
      break;
  }
  return part;
}

Tensor Tensor::reshaped(const Shape& other) const {
  assert(other.elements() == elements());
  Tensor view = *this;
  view.shape = other;
  return view;
}

}  // namespace pipetrain
