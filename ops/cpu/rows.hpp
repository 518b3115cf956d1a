// Rows of activations as floats, whatever type they have, for the length of a tile: those of 16 bits go through memory of the
// thread, those of f32 are read and written where they are.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"

namespace pipetrain::cpu {

// to [count] = from [count] of this type: f32, bf16 or f16.
void widen(DType type, const void* from, std::int64_t count, float* to);
// to [count] of this type = from [count], rounded to nearest even. They must not overlap.
void narrow(DType type, const float* from, std::int64_t count, void* to);

inline char* element_at(const Tensor& tensor, std::int64_t index) {
  return static_cast<char*>(tensor.data) + static_cast<std::size_t>(index) * size_of(tensor.dtype);
}

// Memory that the thread keeps for the next who asks. Not initialised.
class Floats {
 public:
  explicit Floats(std::int64_t count);
  ~Floats();
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

// The rows of a matrix, one at a time.
class Rows {
 public:
  // Of each row the first `used` elements, or all.
  explicit Rows(const Tensor& matrix) : Rows(matrix, matrix.cols()) {}
  Rows(const Tensor& matrix, std::int64_t used)
      : matrix_(matrix), cols_(matrix.cols()), used_(used), wide_(matrix.dtype == DType::f32 ? 0 : used) {}

  // Row `row` to read, until the next call.
  const float* operator[](std::int64_t row) const { return read(row, 0, used_); }
  // Only the columns [begin, end) of it: where they begin.
  const float* read(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    char* const at = element_at(matrix_, row * cols_ + begin);
    if (is_float()) return reinterpret_cast<const float*>(at);
    widen(matrix_.dtype, at, end - begin, wide_.data());
    return wide_.data();
  }
  // fill(out) writes the row.
  template <class Fill>
  void write(std::int64_t row, const Fill& fill) const {
    char* const at = element_at(matrix_, row * cols_);
    if (is_float()) return fill(reinterpret_cast<float*>(at));
    fill(wide_.data());
    narrow(matrix_.dtype, wide_.data(), used_, at);
  }
  // change(values) changes the row in place.
  template <class Change>
  void update(std::int64_t row, const Change& change) const {
    if (!is_float()) widen(matrix_.dtype, element_at(matrix_, row * cols_), used_, wide_.data());
    write(row, change);
  }

 private:
  bool is_float() const { return matrix_.dtype == DType::f32; }

  Tensor matrix_;
  std::int64_t cols_, used_;
  Floats wide_;
};

// A matrix that may not be there.
class OptionalRows {
 public:
  explicit OptionalRows(const std::optional<Tensor>& matrix) {
    if (matrix) rows_.emplace(*matrix);
  }
  // Null without a matrix.
  const float* operator[](std::int64_t row) const { return rows_ ? (*rows_)[row] : nullptr; }

 private:
  std::optional<Rows> rows_;
};

// A vector.
class Vector {
 public:
  explicit Vector(const Tensor& vector) : rows_(vector.reshaped({1, vector.elements()})), data_(rows_[0]) {}
  operator const float*() const { return data_; }

 private:
  Rows rows_;
  const float* data_;
};

}  // namespace pipetrain::cpu
