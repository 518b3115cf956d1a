// Rows of activations of any type as floats, for the duration of a tile. 16-bit rows are converted through
// memory of the thread; f32 rows are read and written in place.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.hpp"

namespace pipetrain::cpu {

// to [count] = from [count] of this type: f32, bf16 or f16.
void widen(DType type, const void* from, std::int64_t count, float* to);
// to [count] of this type = from [count], rounded to nearest even. The two must not overlap.
void narrow(DType type, const float* from, std::int64_t count, void* to);
// Rounds values [count] to numbers of this type, as narrow() does.
void round_in_place(DType type, float* values, std::int64_t count);

inline char* element_at(const Tensor& tensor, std::int64_t index) {
  return static_cast<char*>(tensor.data) + static_cast<std::size_t>(index) * size_of(tensor.dtype);
}

// Memory that the thread keeps for its next user. Not initialised.
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
  // Uses the first `used` elements of each row, or all.
  explicit Rows(const Tensor& matrix) : Rows(matrix, matrix.cols()) {}
  Rows(const Tensor& matrix, std::int64_t used)
      : matrix_(matrix), cols_(matrix.cols()), used_(used), wide_(matrix.dtype == DType::f32 ? 0 : used) {}

  // Returns row `row` to read, valid until the next call.
  const float* operator[](std::int64_t row) const { return read(row, 0, used_); }
  // Reads only the columns [begin, end) of the row, and returns a pointer to the first.
  const float* read(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    char* const at = element_at(matrix_, row * cols_ + begin);
    if (is_float()) return reinterpret_cast<const float*>(at);
    widen(matrix_.dtype, at, end - begin, wide_.data());
    return wide_.data();
  }
  // Calls fill(out) to write the row.
  template <class Fill>
  void write(std::int64_t row, const Fill& fill) const {
    char* const at = element_at(matrix_, row * cols_);
    if (is_float()) return fill(reinterpret_cast<float*>(at));
    fill(wide_.data());
    narrow(matrix_.dtype, wide_.data(), used_, at);
  }
  // Calls change(values) to change the row in place.
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

// A matrix that may be absent.
class OptionalRows {
 public:
  explicit OptionalRows(const std::optional<Tensor>& matrix) {
    if (matrix) rows_.emplace(*matrix);
  }
  // Returns null without a matrix.
  const float* operator[](std::int64_t row) const { return rows_ ? (*rows_)[row] : nullptr; }

 private:
  std::optional<Rows> rows_;
};

// A vector as floats.
class Vector {
 public:
  explicit Vector(const Tensor& vector) : rows_(vector.reshaped({1, vector.elements()})), data_(rows_[0]) {}
  operator const float*() const { return data_; }

 private:
  Rows rows_;
  const float* data_;
};

}  // namespace pipetrain::cpu
