#include "model/weights/tensor_pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>
#include <utility>

#include "core/error.hpp"

namespace pipetrain {
namespace {

// A rectangle of a logical tensor; a vector has one column.
struct Rectangle {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
};

Rectangle rectangle_of(const Shape& full, int axis, std::int64_t begin, std::int64_t end) {
  Rectangle all{0, full.rank() > 0 ? full[0] : 1, 0, full.rank() > 1 ? full[1] : 1};
  if (axis == 0) std::tie(all.row, all.rows) = std::pair(begin, end - begin);
  if (axis == 1) std::tie(all.column, all.columns) = std::pair(begin, end - begin);
  return all;
}

Rectangle common(const Rectangle& a, const Rectangle& b) {
  const std::int64_t row = std::max(a.row, b.row), column = std::max(a.column, b.column);
  return {row, std::max<std::int64_t>(0, std::min(a.row + a.rows, b.row + b.rows) - row), column,
          std::max<std::int64_t>(0, std::min(a.column + a.columns, b.column + b.columns) - column)};
}

// A dense slice in memory or in a file: row-major, or, if transposed, column-major.
struct Storage {
  Rectangle place;
  bool transposed = false;

  std::int64_t lines() const { return transposed ? place.columns : place.rows; }
  std::int64_t line() const { return transposed ? place.rows : place.columns; }  // elements of a line
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    row -= place.row;
    column -= place.column;
    return transposed ? column * place.rows + row : row * place.columns + column;
  }
};

// Calls run(first in `from`, first in `to`, step in `to`, count) for ranges of elements that are contiguous in `from`.
template <class Run>
void for_each_common_run(const Storage& from, const Storage& to, Run run) {
  const Rectangle both = common(from.place, to.place);
  if (both.elements() == 0) return;
  const std::int64_t lines = from.transposed ? both.columns : both.rows, count = from.transposed ? both.rows : both.columns;
  const bool same = from.transposed == to.transposed;
  if (same && count == from.line() && count == to.line())
    return run(from.at(both.row, both.column), to.at(both.row, both.column), 1, both.elements());
  for (std::int64_t line = 0; line < lines; ++line) {
    const std::int64_t row = both.row + (from.transposed ? 0 : line), column = both.column + (from.transposed ? line : 0);
    run(from.at(row, column), to.at(row, column), same ? 1 : to.line(), count);
  }
}

bool is_finite(float value) { return std::isfinite(value); }

std::int64_t slice_length(const Parameter& wanted) {
  return wanted.local[wanted.transposed ? 1 - wanted.split_axis : wanted.split_axis];
}

// The place of a parameter's slice, or of a piece's, in the tensor.
Storage storage_of(const Parameter& wanted) {
  const std::int64_t length = wanted.split_axis < 0 ? 0 : slice_length(wanted);
  return {rectangle_of(wanted.full, wanted.split_axis, wanted.begin, wanted.begin + length), wanted.transposed};
}
Storage storage_of(const Shape& full, const TensorPiece& piece) {
  return {rectangle_of(full, piece.axis, piece.begin, piece.end), piece.transposed};
}

std::tuple<std::int64_t, std::int64_t> order(const LocatedPiece& at) {
  return {at.piece.begin, at.piece.elements ? at.piece.elements->first : 0};
}

std::int64_t stored_elements(const LocatedPiece& at) {
  std::int64_t count = 1;
  for (const std::int64_t dim : at.stored->shape) count *= dim;
  return count;
}

// Calls run(values in the store, first element of the slice, step there, count) for what the piece holds of a slice.
template <class Run>
void for_each_held_run(const Shape& full, const LocatedPiece& at, const Storage& to, Run run) {
  const Storage from = storage_of(full, at.piece);
  const TensorPiece::Range held = at.piece.elements.value_or(TensorPiece::Range{0, from.place.elements()});
  for_each_common_run(from, to, [&](std::int64_t first, std::int64_t target, std::int64_t step, std::int64_t count) {
    const std::int64_t begin = std::max(first, held.first), end = std::min(first + count, held.last);
    if (begin >= end) return;
    const char* const values = at.stored->values + static_cast<std::size_t>(begin - held.first) * sizeof(float);
    run(values, target + (begin - first) * step, step, end - begin);
  });
}

// Returns whether all values are finite.
bool copy_run(const char* source, float* target, std::int64_t step, std::int64_t count) {
  if (step == 1) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(float));
    return std::all_of(target, target + count, is_finite);
  }
  bool finite = true;
  for (std::int64_t i = 0; i < count; ++i, source += sizeof(float), target += step) {
    std::memcpy(target, source, sizeof(float));
    finite = finite && is_finite(*target);
  }
  return finite;
}

}  // namespace

void refuse(const LocatedPiece& at, const std::string& what) {
  throw Error(ErrorKind::input,
              fmt::format("{}: tensor {}: {}; take another checkpoint", at.store->where, at.stored->name, what));
}

void TensorPieces::check(const Shape& full) {
  full_ = full;
  std::sort(pieces_.begin(), pieces_.end(), [](const LocatedPiece& a, const LocatedPiece& b) { return order(a) < order(b); });
  std::int64_t covered = 0;  // elements along the axis
  for (std::size_t i = 0; i < pieces_.size();) covered = check_slice(i, covered);
  if (covered != axis_end(pieces_.front())) refuse(pieces_.back(), "the rest of it is in no file");
}

void TensorPieces::check_or_take(const Shape& full) {
  const TensorPiece& piece = pieces_.front().piece;
  if (pieces_.size() > 1 || piece.axis >= 0 || piece.elements) return check(full);
  const auto& dims = pieces_.front().stored->shape;
  if (dims.empty() || dims.size() > 2 || (piece.transposed && dims.size() != 2))
    refuse(pieces_.front(), "is neither a vector nor a matrix");
  full_ = dims.size() == 1 ? Shape{dims[0]} : piece.transposed ? Shape{dims[1], dims[0]} : Shape{dims[0], dims[1]};
}

void TensorPieces::check_same_model(const Parameter& wanted) const {
  if (!(wanted.full == full_)) refuse(pieces_.front(), fmt::format("is of shape {} there", to_string(full_)));
}

void TensorPieces::load(const Parameter& wanted, float* out) const {
  check_same_model(wanted);
  const Storage to = storage_of(wanted);
  for (const LocatedPiece& at : pieces_) {
    for_each_held_run(full_, at, to, [&](const char* source, std::int64_t target, std::int64_t step, std::int64_t count) {
      if (!copy_run(source, out + target, step, count) && at.piece.state == weights_name)
        refuse(at, "holds values that are not finite");
    });
  }
}

bool TensorPieces::pass_in_memory(const Parameter& wanted, const Region& elements, const TakeElements& take) const {
  constexpr std::size_t most_runs = 64;
  check_same_model(wanted);
  struct Run {
    std::size_t begin;
    const float* values;
    std::size_t count;
  };
  std::vector<Run> runs;
  bool suits = true;
  for (const LocatedPiece& at : pieces_) {
    suits = suits && at.store->in_memory;
    if (!suits) return false;
    for_each_held_run(full_, at, storage_of(wanted),
                      [&](const char* source, std::int64_t target, std::int64_t step, std::int64_t count) {
                        const auto first = static_cast<std::size_t>(target), all = static_cast<std::size_t>(count);
                        const std::size_t begin = std::max(first, elements.begin), end = std::min(first + all, elements.end);
                        if (begin >= end) return;
                        suits = suits && step == 1 && runs.size() < most_runs;
                        if (suits)
                          runs.push_back({begin, reinterpret_cast<const float*>(source) + (begin - first), end - begin});
                      });
  }
  if (!suits) return false;
  for (const Run& run : runs) take(run.begin, run.values, run.count);
  return true;
}

std::int64_t TensorPieces::axis_end(const LocatedPiece& at) const { return at.piece.axis < 0 ? 1 : full_[at.piece.axis]; }

// Checks the pieces of the slice that begins with pieces_[i], and moves i to the next slice's first piece.
// Returns where the next slice must begin.
std::int64_t TensorPieces::check_slice(std::size_t& i, std::int64_t covered) const {
  const LocatedPiece& first = pieces_[i];
  const TensorPiece& piece = first.piece;
  if (piece.axis != pieces_.front().piece.axis) refuse(first, "is cut along another axis than the others");
  if (piece.axis >= full_.rank() || piece.end > axis_end(first) || (piece.transposed && full_.rank() != 2))
    refuse(first, fmt::format("does not fit the model, whose tensor is {}", to_string(full_)));
  const std::int64_t begin = piece.axis < 0 ? 0 : piece.begin;
  if (begin != covered) refuse(first, begin < covered ? "is there twice" : "the elements before it are in no file");
  const std::int64_t slice = storage_of(full_, first.piece).place.elements();
  std::int64_t held = 0;
  for (; i < pieces_.size() && pieces_[i].piece.begin == piece.begin; ++i) {
    const LocatedPiece& at = pieces_[i];
    const auto range = at.piece.elements.value_or(TensorPiece::Range{0, slice});
    if (at.piece.axis != piece.axis || at.piece.end != piece.end || at.piece.transposed != piece.transposed)
      refuse(at, "differs from the other slices that begin there");
    if (range.first != held || range.last > slice) refuse(at, range.first < held ? "is there twice" : "is not all there");
    if (stored_elements(at) != range.last - range.first) refuse(at, "has another number of elements than its name says");
    held = range.last;
  }
  if (held != slice) refuse(first, "is not all there");
  return piece.axis < 0 ? 1 : piece.end;
}

}  // namespace pipetrain
