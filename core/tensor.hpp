// A view of a dense row-major tensor in some device's memory. It owns nothing: memory lives in arenas and buffers that the
// runtime keeps until every stream that may touch them has finished. Copying a Tensor copies the view.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/dtype.hpp"

namespace pipetrain {

class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const {
    assert(axis >= 0 && axis < rank_);
    return dims_[static_cast<std::size_t>(axis)];
  }
  std::int64_t elements() const noexcept;  // 1 for rank 0
  // Returns the same shape with another size of one axis.
  Shape with(int axis, std::int64_t size) const {
    assert(axis >= 0 && axis < rank_ && size >= 0);
    Shape other = *this;
    other.dims_[static_cast<std::size_t>(axis)] = size;
    return other;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, max_rank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[32, 64]"

struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;

  std::int64_t elements() const noexcept { return shape.elements(); }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements()) * size_of(dtype); }
  // Return the rows, which are the first axis, and the columns, which are all other axes together.
  std::int64_t rows() const { return shape[0]; }
  std::int64_t cols() const { return shape[0] == 0 ? 0 : elements() / shape[0]; }

  // T must be the host type of dtype (float, double, std::int32_t; std::uint16_t for bf16 and f16). Host-readable memory only.
  template <class T>
  T* as() const {
    assert(sizeof(T) == size_of(dtype));
    return static_cast<T*>(data);
  }

  // Returns the rows [begin, end) of the first axis, with the same other axes.
  Tensor row_range(std::int64_t begin, std::int64_t end) const;
  // Returns the same elements in another shape of equal count.
  Tensor reshaped(const Shape& other) const;
};

}  // namespace pipetrain
